/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/context.h"
#include "shared/base/cleanup.h"
#include "shared/wire/message.h"

/* Entries of the history that are asked for a base, the newest first: a worker is started for each. */
#define MERGE_ENTRIES_MAX 64

static const char *const not_kept = "the version that the draft began with was not kept";

/* What the history holds that was at the place of a merge. */
struct merge_kept {
	size_t merge; /* its number */
	size_t order; /* in the entry */
	char name[SWAP_NAME_MAX + 1];
	Koda__Identity held;
	int64_t since_ns;
};

/* An entry that holds some of that. */
struct keeper {
	char id[NAMED_ID_MAX + 1];
	struct merge_kept *v;
	size_t n, size;
};

struct merge_search {
	struct draft_merge *merge;
	size_t *by_path; /* numbers of those that can be merged */
	size_t n;
	struct keeper keeper[MERGE_ENTRIES_MAX]; /* a ring: the newest ones */
	size_t n_keepers;                        /* so far */
	bool failed;                             /* there is no memory */
};

static void
search_done(struct merge_search *s)
{
	for (size_t i = 0; i < MERGE_ENTRIES_MAX; i++)
		free(s->keeper[i].v);
	free(s->by_path);
	free(s);
}

static void
search_free(struct merge_search **s)
{
	if (*s != NULL)
		search_done(*s);
}

/* ---- what the history holds ---- */

static int
by_path(const void *a, const void *b, void *data)
{
	const struct merge_search *s = data;

	return strcmp(s->merge[*(const size_t *)a].change->path,
	    s->merge[*(const size_t *)b].change->path);
}

/* Returns the number of the merge whose place that is, or SIZE_MAX. */
static size_t
find_place(const struct merge_search *s, const char *path)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		const int r = strcmp(path, s->merge[s->by_path[mid]].change->path);

		if (r == 0)
			return s->by_path[mid];
		if (r < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return SIZE_MAX;
}

static bool
add_kept(struct keeper *k, struct merge_kept one)
{
	if (k->n == k->size) {
		const size_t more = k->size == 0 ? 16 : 2 * k->size;
		struct merge_kept *grown = reallocarray(k->v, more, sizeof(*grown));

		if (grown == NULL)
			return false;
		k->v = grown;
		k->size = more;
	}
	one.order = k->n;
	k->v[k->n++] = one;
	return true;
}

/* The newest one first. */
static int
by_merge(const void *a, const void *b)
{
	const struct merge_kept *x = a, *y = b;

	if (x->merge != y->merge)
		return x->merge < y->merge ? -1 : 1;
	return x->order > y->order ? -1 : 1;
}

/*
 * The file was at the place, unchanged, from the time when it was listed until a worker moved it away,
 * which checked that; unless it was to take whatever was there. What is held across file systems is a
 * copy.
 */
static bool
is_certain(const struct history_item *item)
{
	return item->state == ITEM_DONE && !item->turned && !item->take &&
	    item->held.type == KODA__FILE_TYPE__FILE_REGULAR &&
	    item->held.dev == item->before.dev && item->held.ino == item->before.ino;
}

static int
on_entry(void *data, const struct history *h)
{
	struct merge_search *s = data;
	struct keeper *k = &s->keeper[s->n_keepers % MERGE_ENTRIES_MAX];

	k->n = 0;
	/* Workers that may be an agent's wrote down what those hold. */
	if (history_is_of_files(h))
		return 0;
	for (size_t i = 0; i < h->n_items; i++) {
		const struct history_item *item = &h->item[i];
		struct merge_kept one = { .held = KODA__IDENTITY__INIT };

		if (!is_certain(item))
			continue;
		one.merge = find_place(s, item->place);
		if (one.merge == SIZE_MAX)
			continue;
		snprintf(one.name, sizeof(one.name), "%s", item->name);
		one.held.type = item->held.type;
		one.held.dev = item->held.dev;
		one.held.ino = item->held.ino;
		one.held.has_ctime_ns = true;
		one.held.ctime_ns = item->held.ctime_ns;
		one.since_ns = item->before.ctime_ns;
		if (!add_kept(k, one)) {
			s->failed = true;
			return 1;
		}
	}
	if (k->n > 1)
		qsort(k->v, k->n, sizeof(*k->v), by_merge);
	snprintf(k->id, sizeof(k->id), "%s", h->id);
	s->n_keepers += k->n > 0;
	return 0;
}

/* Returns NULL with *err set. */
static struct merge_search *
search(struct koda_draft *d, struct draft_merge *v, size_t n, struct koda_error *err)
{
	struct merge_search *s = calloc(1, sizeof(*s));

	if (s != NULL) {
		s->merge = v;
		s->by_path = calloc(n + 1, sizeof(*s->by_path));
	}
	for (size_t i = 0; s != NULL && s->by_path != NULL && i < n; i++)
		if (v[i].reason == not_kept)
			s->by_path[s->n++] = i;
	if (s == NULL || s->by_path == NULL) {
		search_free(&s);
		err_set(err, KODA_INTERNAL, ENOMEM, "merge");
		return NULL;
	}
	if (s->n > 1)
		qsort_r(s->by_path, s->n, sizeof(*s->by_path), by_path, s);
	if ((s->n > 0 && history_list(d->like.state, d->like.root, on_entry, s, err) < 0) ||
	    s->failed) {
		if (s->failed)
			err_set(err, KODA_INTERNAL, ENOMEM, "merge");
		search_free(&s);
	}
	return s;
}

/* ---- asking the worker ---- */

struct merge_asked {
	struct draft_merge *merge;
	enum merge_what what;
	bool more; /* of the text is to come */
};

static int
broken(const char *what, struct koda_error *err)
{
	return err_set(err, KODA_PROTOCOL, 0, "the worker's reply to a merge: %s", what);
}

static int
take_text(struct merge_asked *a, const Koda__MergeReply *reply, struct koda_error *err)
{
	struct draft_merge *m = a->merge;
	const size_t n = reply->has_content ? reply->content.len : 0;
	char *grown;

	/* Both sides may have grown by what the other one added. */
	if (!reply->has_content || n > PAGE_MAX || m->len + n > 2 * (size_t)MERGE_BYTES_MAX)
		return broken("no text", err);
	a->more = n == PAGE_MAX;
	grown = realloc(m->text, m->len + n + 1);
	if (grown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "merge");
	memcpy(grown + m->len, reply->content.data, n);
	m->text = grown;
	m->len += n;
	return 0;
}

static int
take_clean(struct merge_asked *a, const Koda__MergeReply *reply, struct koda_error *err)
{
	struct draft_merge *m = a->merge;

	m->outcome = KODA_MERGE_CLEAN;
	if (a->what == MERGE_READ)
		return take_text(a, reply, err);
	if (a->what != MERGE_WRITE)
		return 0;
	if (reply->after == NULL || reply->after->type != KODA__FILE_TYPE__FILE_REGULAR ||
	    reply->after->has_target || reply->after->mode > 07777)
		return broken("not what was written", err);
	return side_take(&m->after, reply->after, err);
}

static int
take_reply(void *data, const Koda__Reply *r, struct koda_error *err)
{
	struct merge_asked *a = data;
	struct draft_merge *m = a->merge;
	const Koda__MergeReply *reply = r->merge;

	if (r->result_case != KODA__REPLY__RESULT_MERGE)
		return broken("it has the wrong type", err);
	switch (reply->outcome) {
	case KODA__MERGE_OUTCOME__MERGE_NONE:
		if (!reply->has_reason || reply->reason.len == 0 ||
		    memchr(reply->reason.data, '\0', reply->reason.len) != NULL)
			return broken("no reason", err);
		free(m->text);
		m->text = strndup((const char *)reply->reason.data, reply->reason.len);
		m->reason = m->text;
		return m->text != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "merge");
	case KODA__MERGE_OUTCOME__MERGE_CLEAN:
		return take_clean(a, reply, err);
	case KODA__MERGE_OUTCOME__MERGE_OVERLAPS:
		m->outcome = KODA_MERGE_OVERLAPS;
		m->overlaps = reply->overlaps;
		m->line = reply->line;
		return 0;
	case KODA__MERGE_OUTCOME__MERGE_NO_BASE:
		return 0;
	case _KODA__MERGE_OUTCOME_IS_INT_SIZE:
		break;
	}
	return broken("its outcome", err);
}

static void
identity(const struct draft_side *s, Koda__Identity *ret)
{
	koda__identity__init(ret);
	ret->type = s->type;
	ret->dev = s->dev;
	ret->ino = s->ino;
	ret->has_ctime_ns = true;
	ret->ctime_ns = s->ctime_ns;
}

static int
ask(struct koda_draft *d, struct merge_asked *a, Koda__MergeBase **base, size_t n,
    struct koda_error *err)
{
	const struct reviewed *c = a->merge->change;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Merge msg = KODA__MERGE__INIT;
	Koda__Identity here, held;

	identity(&c->before, &here);
	identity(&c->after, &held);
	req.op_case = KODA__REQUEST__OP_MERGE;
	req.merge = &msg;
	msg.layer = c->layer;
	msg.place = message_text(c->path);
	msg.here = &here;
	msg.held = &held;
	msg.past = base;
	msg.n_past = n;
	msg.has_write = msg.write = a->what == MERGE_WRITE;
	msg.has_offset = a->what == MERGE_READ;
	do {
		msg.offset = a->merge->len;
		a->more = false;
		if (held_ask(&d->held, &req, take_reply, a, err) < 0)
			return -1;
	} while (a->more);
	return 0;
}

/* Merges what that entry holds a base for. */
static int
ask_keeper(struct koda_draft *d, struct merge_search *s, struct keeper *k, enum merge_what what,
    struct koda_error *err)
{
	for (size_t i = 0, end; i < k->n; i = end) {
		struct merge_asked a = { &s->merge[k->v[i].merge], what, false };
		Koda__MergeBase base[MERGE_BASES_MAX], *list[MERGE_BASES_MAX];
		size_t n = 0;

		for (end = i; end < k->n && k->v[end].merge == k->v[i].merge; end++) {
			if (n == MERGE_BASES_MAX)
				continue;
			koda__merge_base__init(&base[n]);
			base[n].name = message_text(k->v[end].name);
			base[n].held = &k->v[end].held;
			base[n].since_ns = k->v[end].since_ns;
			list[n] = &base[n];
			n++;
		}
		if (a.merge->reason == not_kept && a.merge->outcome == KODA_MERGE_NONE &&
		    ask(d, &a, list, n, err) < 0)
			return -1;
	}
	return 0;
}

static int
ask_all(struct koda_draft *d, struct merge_search *s, enum merge_what what, struct koda_error *err)
{
	const size_t n = s->n_keepers < MERGE_ENTRIES_MAX ? s->n_keepers : MERGE_ENTRIES_MAX;

	for (size_t i = 0; i < n; i++) {
		struct keeper *k = &s->keeper[(s->n_keepers - 1 - i) % MERGE_ENTRIES_MAX];
		cleanup_close int fd = history_directory(d->like.state, d->like.root, k->id);
		int r;

		/* It was removed meanwhile. */
		if (fd < 0)
			continue;
		r = draft_hold(d, fd, err);
		if (r == 0)
			r = ask_keeper(d, s, k, what, err);
		/* The worker has a descriptor of the entry. */
		held_close(&d->held);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* ---- for the others ---- */

static bool
is_file(const struct draft_side *s)
{
	return s->type == KODA__FILE_TYPE__FILE_REGULAR;
}

int
draft_merges_run(struct koda_draft *d, struct draft_merge *v, size_t n, enum merge_what what,
    struct koda_error *err)
{
	cleanup(search_free) struct merge_search *s = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct reviewed *c = v[i].change;

		v[i] = (struct draft_merge){ .change = c, .reason = not_kept };
		if (c->kind != KODA__DRAFT_KIND__DRAFT_CHANGED || !is_file(&c->before) ||
		    !is_file(&c->after))
			v[i].reason = "only what was changed in a file can be merged";
		else if (c->rule != NULL)
			v[i].reason = "the policy refuses it";
	}
	s = search(d, v, n, err);
	return s == NULL ? -1 : ask_all(d, s, what, err);
}

void
draft_merges_done(struct draft_merge *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].text);
		side_done(&v[i].after);
	}
}

void
draft_merge_explain(const struct draft_merge *one, char *ret, size_t size)
{
	ret[0] = '\0';
	if (one->outcome == KODA_MERGE_NONE)
		snprintf(ret, size, "%s", one->reason);
	else if (one->outcome == KODA_MERGE_OVERLAPS)
		snprintf(ret, size,
		    "project and draft changed the same lines in %" PRIu64
		    " place%s, first in line %" PRIu64,
		    one->overlaps, one->overlaps == 1 ? "" : "s", one->line);
}

/* ---- for the embedder ---- */

struct conflicts {
	struct reviewed *v;
	size_t n, size;
	bool failed;
};

static void
conflicts_done(struct conflicts *c)
{
	while (c->n > 0)
		change_done(&c->v[--c->n]);
	free(c->v);
}

static int
collect(void *data, struct reviewed *change)
{
	struct conflicts *c = data;

	if (!change->conflict)
		return 0;
	if (c->n == c->size) {
		const size_t more = c->size == 0 ? 16 : 2 * c->size;
		struct reviewed *grown = reallocarray(c->v, more, sizeof(*grown));

		if (grown == NULL) {
			c->failed = true;
			return 1;
		}
		c->v = grown;
		c->size = more;
	}
	c->v[c->n++] = *change;
	*change = (struct reviewed){ 0 };
	return 0;
}

static int
tell_merge(const struct draft_merge *m, koda_merge_fn *fn, void *data)
{
	char reason[KODA_MESSAGE_MAX];
	const bool clean = m->outcome == KODA_MERGE_CLEAN;
	const struct koda_merge one = { m->change->path, m->outcome, clean ? NULL : reason,
		m->overlaps, m->line, clean ? m->text : NULL, clean ? m->len : 0 };

	draft_merge_explain(m, reason, sizeof(reason));
	return fn(data, &one);
}

/* Merges one after the other part, so that few texts are in memory. */
#define MERGES_AT_ONCE 64

int
koda_draft_merges(struct koda_draft *draft, koda_merge_fn *fn, void *data, struct koda_error *err)
{
	cleanup(conflicts_done) struct conflicts c = { 0 };
	int r;

	err_clear(err);
	if (draft_look(draft, err) < 0)
		return -1;
	r = changes_each(draft, collect, &c, NULL, err);
	if (c.failed)
		return err_set(err, KODA_INTERNAL, ENOMEM, "merge");
	for (size_t i = 0; r == 0 && i < c.n; i += MERGES_AT_ONCE) {
		struct draft_merge v[MERGES_AT_ONCE] = { 0 };
		const size_t n = c.n - i < MERGES_AT_ONCE ? c.n - i : MERGES_AT_ONCE;

		for (size_t j = 0; j < n; j++)
			v[j].change = &c.v[i + j];
		r = draft_merges_run(draft, v, n, MERGE_READ, err);
		for (size_t j = 0; r == 0 && j < n; j++)
			r = tell_merge(&v[j], fn, data);
		draft_merges_done(v, n);
	}
	return r;
}
