/* SPDX-License-Identifier: Apache-2.0 */
/* The change set of a draft: koda_draft_changes(), koda_draft_read(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/context.h"
#include "host/review/state.h"
#include "host/slot/reply.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/wire/message.h"

/* A page of a file that always comes in the frame. */
#define READ_PAGE INLINE_MAX
/* It is held in memory. */
#define READ_MAX (UINT64_C(256) << 20)

void
change_done(struct reviewed *c)
{
	free(c->path);
	free(c->rule);
	free(c->reason);
	free(c->note);
	side_done(&c->before);
	side_done(&c->after);
	*c = (struct reviewed){ 0 };
}

static size_t
length(const char *text)
{
	return text == NULL ? 0 : strlen(text);
}

size_t
change_text(const struct reviewed *c)
{
	return length(c->path) + length(c->rule) + length(c->reason) + length(c->note) +
	    length(c->before.target) + length(c->after.target);
}

/* ---- what the public header shows ---- */

static const struct koda_change_side *
show_side(const struct draft_side *s, struct koda_change_side *ret)
{
	if (s->type == 0)
		return NULL;
	*ret = (struct koda_change_side){ (enum koda_file_type)s->type, s->size, s->mode,
		s->mtime_ns, s->target };
	return ret;
}

void
change_show(const struct reviewed *c, struct change_shown *ret)
{
	ret->change = (struct koda_change){
		.path = c->path,
		.kind = (enum koda_change_kind)c->kind,
		.before = show_side(&c->before, &ret->before),
		.after = show_side(&c->after, &ret->after),
		.entries = c->entries,
		.rule = c->rule,
		.reason = c->reason,
		.conflict = c->conflict,
		.note = c->note,
	};
}

void
item_show(const struct history_item *item, struct change_shown *ret)
{
	ret->change = (struct koda_change){
		.path = item->place,
		.kind = (enum koda_change_kind)item->kind,
		.before = show_side(&item->before, &ret->before),
		.after = show_side(&item->after, &ret->after),
		.to = item->to,
		.reason = item->unkept,
	};
}

/* ---- a worker's list, which is untrusted ---- */

struct change_listing {
	struct koda_draft *draft;
	uint32_t layer;
	change_fn *fn;
	void *data;
	int stopped; /* what fn returned */
	bool more, cut;
	char *own;  /* the last file that is deleted, and was the draft's own */
	char *last; /* the path and the kind of the last change */
	Koda__DraftKind last_kind;
};

/* Is the conflict none, because what is in the project came from this draft? A name whose type changes
 * is deleted first, and then there is nothing before. */
static int
clear_conflict(struct change_listing *l, struct reviewed *c)
{
	struct koda_draft *d = l->draft;

	if (!c->conflict)
		return 0;
	if (c->before.type == 0) {
		c->conflict = l->own == NULL || strcmp(l->own, c->path) != 0;
		return 0;
	}
	c->conflict =
	    !own_has(&d->own, d->like.state, d->like.root, d->draft.id, c->path, &c->before);
	if (c->conflict || c->kind != KODA__DRAFT_KIND__DRAFT_DELETED)
		return 0;
	free(l->own);
	l->own = strdup(c->path);
	return l->own == NULL ? -1 : 0;
}

static int
take_page(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct change_listing *l = data;
	const Koda__ChangesReply *page = reply->changes;

	if (reply->result_case != KODA__REPLY__RESULT_CHANGES)
		return change_broken("the reply has the wrong type", err);
	l->more = page->has_more && page->more;
	l->cut |= page->has_cut && page->cut;
	if (l->more && page->n_entry == 0)
		return change_broken("an empty page that is not the last", err);
	for (size_t i = 0; i < page->n_entry && l->stopped == 0; i++) {
		cleanup(change_done) struct reviewed c = { 0 };

		if (change_take(&l->draft->draft, l->layer, page->entry[i], &c, err) < 0)
			return -1;
		if (clear_conflict(l, &c) < 0)
			return err_set(err, KODA_INTERNAL, ENOMEM, "changes");
		if (i + 1 == page->n_entry) {
			free(l->last);
			l->last = strdup(c.path);
			l->last_kind = c.kind;
			if (l->last == NULL)
				return err_set(err, KODA_INTERNAL, ENOMEM, "changes");
		}
		l->stopped = l->fn(l->data, &c);
	}
	return 0;
}

static int
list_layer(struct change_listing *l, struct koda_error *err)
{
	do {
		Koda__Request req = KODA__REQUEST__INIT;
		Koda__Changes msg = KODA__CHANGES__INIT;

		req.op_case = KODA__REQUEST__OP_CHANGES;
		req.changes = &msg;
		msg.layer = l->layer;
		msg.has_after = msg.has_after_kind = l->last != NULL;
		if (l->last != NULL) {
			msg.after = message_text(l->last);
			msg.after_kind = l->last_kind;
		}
		if (held_ask(&l->draft->held, &req, take_page, l, err) < 0)
			return -1;
	} while (l->more && l->stopped == 0);
	return l->stopped;
}

int
changes_each(struct koda_draft *d, change_fn *fn, void *data, bool *ret_cut, struct koda_error *err)
{
	bool cut = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->draft.n_dirs; i++) {
		struct change_listing l = { .draft = d,
			.layer = (uint32_t)i,
			.fn = fn,
			.data = data };

		r = list_layer(&l, err);
		cut |= l.cut;
		free(l.last);
		free(l.own);
	}
	if (ret_cut != NULL)
		*ret_cut = cut;
	return r;
}

/* ---- for the embedder ---- */

struct showing {
	koda_change_fn *fn;
	void *data;
};

static int
show(void *data, struct reviewed *c)
{
	const struct showing *s = data;
	struct change_shown shown;

	change_show(c, &shown);
	return s->fn(s->data, &shown.change);
}

int
koda_draft_changes(struct koda_draft *draft, koda_change_fn *fn, void *data, bool *ret_cut,
    struct koda_error *err)
{
	struct showing s = { fn, data };

	err_clear(err);
	if (ret_cut != NULL)
		*ret_cut = false;
	if (draft->draft.fd < 0)
		return 0;
	return draft_look(draft, err) < 0 ? -1 : changes_each(draft, show, &s, ret_cut, err);
}

/* ---- reading ---- */

struct draft_reading {
	uint8_t *data;
	size_t len, got;
	uint64_t size;
	bool over;
};

static int
take_piece(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct draft_reading *r = data;
	const Koda__ReadReply *piece = reply->read;
	uint8_t *grown;

	if (reply->result_case != KODA__REPLY__RESULT_READ || !piece->has_content ||
	    piece->content.len > READ_PAGE)
		return err_set(err, KODA_PROTOCOL, 0, "the worker's reply: no content");
	r->size = piece->size;
	r->over = piece->content.len == 0;
	if (r->over)
		return 0;
	grown = realloc(r->data, r->len + piece->content.len + 1);
	if (grown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "read a draft");
	memcpy(grown + r->len, piece->content.data, piece->content.len);
	r->data = grown;
	r->len += piece->content.len;
	return 0;
}

/* Which layer holds that path? The longest that does. */
static int
find_layer(const struct draft *d, const char *path, uint32_t *ret)
{
	size_t best = 0;
	bool found = false;

	for (size_t i = 0; i < d->n_dirs; i++) {
		const size_t len = strlen(d->dir[i].path);

		if (!path_is_inside(path, d->dir[i].path) || (found && len < best))
			continue;
		found = true;
		best = len;
		*ret = (uint32_t)i;
	}
	return found ? 0 : -1;
}

static int
read_layer(struct koda_draft *d, const char *path, uint64_t max, struct koda_result *ret,
    struct koda_error *err)
{
	struct draft_reading r = { 0 };
	uint32_t layer = 0;
	int result;

	if (find_layer(&d->draft, path, &layer) < 0)
		return err_set(err, KODA_INVALID, 0, "the draft does not hold that path");
	if (max == 0 || max > READ_MAX)
		max = READ_MAX;
	while (!r.over && r.len < max) {
		Koda__Request req = KODA__REQUEST__INIT;
		Koda__ReadDraft msg = KODA__READ_DRAFT__INIT;

		req.op_case = KODA__REQUEST__OP_READ_DRAFT;
		req.read_draft = &msg;
		msg.layer = layer;
		msg.path = message_text(path);
		msg.has_offset = msg.has_max = true;
		msg.offset = r.len;
		msg.max = max - r.len < READ_PAGE ? max - r.len : READ_PAGE;
		if (held_ask(&d->held, &req, take_piece, &r, err) < 0) {
			free(r.data);
			return -1;
		}
	}
	result = reply_of_bytes(path, r.data, r.len, r.size, ret, err);
	free(r.data);
	return result;
}

int
koda_draft_read(struct koda_draft *draft, const char *path, bool before, uint64_t max,
    struct koda_result *ret, struct koda_error *err)
{
	const struct koda_op op = { .kind = KODA_OP_READ, .path = path, .max = max };

	err_clear(err);
	memset(ret, 0, sizeof(*ret));
	ret->fd = -1;
	if (path == NULL || !path_is_canonical((const uint8_t *)path, strlen(path)))
		return err_set(err, KODA_INVALID, 0, "not the path of a change");
	if (draft_look(draft, err) < 0)
		return -1;
	return before ? koda_call(draft->held.slot, &op, ret, err)
		      : read_layer(draft, path, max, ret, err);
}
