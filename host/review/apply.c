/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/apply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/draft/history_file.h"
#include "host/draft/reveal.h"
#include "host/review/git_part.h"
#include "host/review/merge.h"
#include "host/review/plan.h"
#include "host/review/turn.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

static void
plan_done(struct apply_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		change_done(&p->v[i].change);
	free(p->v);
	while (p->n_gone > 0)
		free(p->gone[--p->n_gone].path);
	free(p->gone);
	selection_done(&p->selection);
}

/* ---- which changes ---- */

static bool
makes_directory(const struct reviewed *c)
{
	return c->kind == KODA__DRAFT_KIND__DRAFT_CREATED &&
	    c->after.type == KODA__FILE_TYPE__FILE_DIRECTORY;
}

enum fate
plan_fate(const struct apply_plan *p, const struct reviewed *c)
{
	if (c->rule != NULL)
		return FATE_REFUSED;
	if (!c->conflict || p->take == KODA_TAKE_DRAFT)
		return FATE_APPLY;
	return p->take == KODA_TAKE_PROJECT ? FATE_DROPPED : FATE_CONFLICT;
}

static int
note_gone(struct apply_plan *p, const struct reviewed *c)
{
	if (p->n_gone == p->gone_size) {
		const size_t more = p->gone_size == 0 ? 64 : 2 * p->gone_size;
		struct reveal_name *grown = reallocarray(p->gone, more, sizeof(*grown));

		if (grown == NULL)
			return -1;
		p->gone = grown;
		p->gone_size = more;
	}
	p->gone[p->n_gone] = (struct reveal_name){ c->layer, strdup(c->path) };
	if (p->gone[p->n_gone].path == NULL)
		return -1;
	p->text += strlen(c->path);
	p->n_gone++;
	return 0;
}

static bool
is_same_path(const struct planned *a, const struct reviewed *b)
{
	return strcmp(a->change.path, b->path) == 0;
}

/* Forgets a deletion that was not selected, unless `next` (NULL: none) makes a directory in its stead,
 * which something selected may need. */
static void
drop_lone(struct apply_plan *p, const struct reviewed *next)
{
	struct planned *last = p->n == 0 ? NULL : &p->v[p->n - 1];

	if (last == NULL || last->fate != FATE_UNSELECTED || plan_is_needed(&last->change) ||
	    (next != NULL && makes_directory(next) && is_same_path(last, next)))
		return;
	p->text -= change_text(&last->change);
	change_done(&last->change);
	p->n--;
}

/* Returns 1 if there is too much. */
static int
collect(void *data, struct reviewed *c)
{
	struct apply_plan *p = data;
	const bool selected = selection_has(&p->selection, c->path);
	const bool goes = c->kind == KODA__DRAFT_KIND__DRAFT_DELETED;

	drop_lone(p, c);
	if (goes && note_gone(p, c) < 0)
		return -1;
	if (!selected && !goes && !plan_is_needed(c))
		return p->text > HISTORY_TEXT_MAX;
	p->text += change_text(c);
	if (p->text > HISTORY_TEXT_MAX)
		return 1;
	if (p->n == p->size) {
		const size_t more = p->size == 0 ? 64 : 2 * p->size;
		struct planned *grown = reallocarray(p->v, more, sizeof(*grown));

		if (grown == NULL)
			return -1;
		p->v = grown;
		p->size = more;
	}
	p->v[p->n++] =
	    (struct planned){ .change = *c, .fate = selected ? plan_fate(p, c) : FATE_UNSELECTED };
	*c = (struct reviewed){ 0 };
	return 0;
}

/*
 * A directory that is made comes before what is in it. `open` are the directories, one in the other,
 * that the present change is in.
 */
static void
settle_dependents(struct apply_plan *p)
{
	size_t open[DRAFT_DEPTH_MAX], depth = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct planned *one = &p->v[i];
		const struct planned *before = i == 0 ? NULL : &p->v[i - 1];

		while (depth > 0 &&
		    !path_is_inside(one->change.path, p->v[open[depth - 1]].change.path))
			depth--;
		/* What is needed for a selected one is selected. */
		for (size_t k = depth; one->fate == FATE_APPLY && k > 0; k--) {
			struct planned *above = &p->v[open[k - 1]];

			if (above->fate != FATE_UNSELECTED)
				continue;
			above->fate = plan_fate(p, &above->change);
			/* What it takes the name of. */
			if (open[k - 1] > 0 && is_same_path(above - 1, &above->change))
				above[-1].fate = above->fate;
		}
		for (size_t k = 0; one->fate == FATE_APPLY && k < depth; k++)
			if (p->v[open[k]].fate != FATE_APPLY)
				one->fate = FATE_SKIPPED;
		/* The type changed: it is deleted first. */
		if (before != NULL && one->fate == FATE_APPLY && before->fate != FATE_APPLY &&
		    strcmp(before->change.path, one->change.path) == 0)
			one->fate = FATE_SKIPPED;
		if (makes_directory(&one->change) && depth < DRAFT_DEPTH_MAX)
			open[depth++] = i;
	}
}

/* ---- merging ---- */

/* What a merge says is kept in the change. */
static int
take_merge(struct planned *one, struct draft_merge *m, struct koda_error *err)
{
	char why[KODA_MESSAGE_MAX];

	one->merged = m->outcome == KODA_MERGE_CLEAN;
	if (one->merged) {
		one->fate = FATE_APPLY;
		if (m->after.type != 0) {
			side_done(&one->change.after);
			one->change.after = m->after;
			m->after = (struct draft_side){ 0 };
		}
		return 0;
	}
	one->fate = FATE_CONFLICT;
	draft_merge_explain(m, why, sizeof(why));
	free(one->change.reason);
	if (asprintf(&one->change.reason, "it does not merge: %s", why) < 0) {
		one->change.reason = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "merge");
	}
	return 0;
}

/* Merges what is in conflict; with MERGE_WRITE what was found to merge cleanly before. */
static int
merge_planned(struct apply_plan *p, enum merge_what what, struct koda_error *err)
{
	cleanup_free struct draft_merge *v = calloc(p->n + 1, sizeof(*v));
	cleanup_free struct planned **of = calloc(p->n + 1, sizeof(struct planned *));
	size_t n = 0;
	int r;

	if (v == NULL || of == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "merge");
	for (size_t i = 0; i < p->n; i++) {
		struct planned *one = &p->v[i];

		if (what == MERGE_WRITE ? !one->merged : one->fate != FATE_CONFLICT)
			continue;
		of[n] = one;
		v[n++].change = &one->change;
	}
	r = n == 0 ? 0 : draft_merges_run(p->draft, v, n, what, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = take_merge(of[i], &v[i], err);
	draft_merges_done(v, n);
	return r;
}

static int
make_plan(struct apply_plan *p, const struct koda_apply_options *o, struct koda_error *err)
{
	int r;

	p->take = o->take;
	if (selection_take(&p->selection, p->draft->like.root, o->paths, o->n_paths, err) < 0)
		return -1;
	err_clear(err);
	r = changes_each(p->draft, collect, p, &p->cut, err);
	if (r < 0)
		return err->code != KODA_OK ? -1 : err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	if (r > 0)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "the names of the changes are more than %zu MiB: apply a part of them",
		    HISTORY_TEXT_MAX >> 20);
	drop_lone(p, NULL);
	if (selection_unused(&p->selection) != NULL)
		return err_set(err, KODA_INVALID, 0, "nothing that was changed is at '%.300s'",
		    selection_unused(&p->selection));
	if (p->take == KODA_TAKE_MERGE && merge_planned(p, MERGE_LOOK, err) < 0)
		return -1;
	plan_settle_git(p);
	settle_dependents(p);
	/* A directory that is not made may be one that refs are in. */
	plan_settle_git(p);
	return 0;
}

/* ---- telling ---- */

static int
tell(const struct planned *one, enum koda_apply_outcome outcome, koda_applied_fn *fn, void *data)
{
	const struct reviewed *c = &one->change;
	const bool conflict = outcome == KODA_APPLY_CONFLICT;
	cleanup_free char *together =
	    conflict && one->together > 0 ? strndup(c->path, one->together) : NULL;
	const struct koda_applied told = { c->path, (enum koda_change_kind)c->kind, outcome,
		c->rule,
		together != NULL ? git_part_together
		    : conflict && c->reason == NULL
		    ? "it was changed in the project after the draft had "
		      "its own version"
		    : c->reason,
		outcome == KODA_APPLIED ? c->note : NULL, together,
		outcome == KODA_APPLIED && one->merged };

	return fn == NULL ? 0 : fn(data, &told);
}

/* What is not listed is not applied, and must not look as if it were. */
static int
tell_unlisted(const struct apply_plan *p, koda_applied_fn *fn, void *data)
{
	const struct koda_applied told = { .path = p->draft->like.root,
		.kind = KODA_CHANGE_CHANGED,
		.outcome = KODA_APPLY_UNLISTED,
		.reason = "the draft has more names, or deeper ones, than a draft may have: these "
			  "were not applied, and stay in it" };

	return p->cut && fn != NULL ? fn(data, &told) : 0;
}

/* Those that are not going to be applied; in a dry run all. */
static int
tell_plan(const struct apply_plan *p, bool dry, koda_applied_fn *fn, void *data)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n; i++) {
		switch (p->v[i].fate) {
		case FATE_APPLY:
			r = dry ? tell(&p->v[i], KODA_APPLIED, fn, data) : 0;
			break;
		case FATE_REFUSED:
			r = tell(&p->v[i], KODA_APPLY_REFUSED, fn, data);
			break;
		case FATE_CONFLICT:
			r = tell(&p->v[i], KODA_APPLY_CONFLICT, fn, data);
			break;
		case FATE_SKIPPED:
			r = tell(&p->v[i], KODA_APPLY_SKIPPED, fn, data);
			break;
		case FATE_UNSELECTED:
		case FATE_DROPPED:
			break;
		}
	}
	return r;
}

/* ---- applying ---- */

/* Takes over what the change refers to. */
static int
add(struct history *h, struct planned *one, bool take, struct koda_error *err)
{
	struct reviewed *c = &one->change;
	struct history_item *item = history_add(h, err);

	if (item == NULL)
		return -1;
	one->item = h->n_items - 1;
	snprintf(item->name, sizeof(item->name), "%zu", one->item);
	item->place = take_ptr(&c->path);
	item->note = take_ptr(&c->note);
	item->layer = c->layer;
	item->kind = c->kind;
	item->take = take && c->conflict;
	item->merged = one->merged;
	item->before = c->before;
	item->after = c->after;
	c->before = c->after = (struct draft_side){ 0 };
	return 0;
}

/* Adds the last step of a directory that was made with other permissions than its own. */
static int
add_closing(struct history *h, size_t made, struct koda_error *err)
{
	struct history_item *item = history_add(h, err), *dir;

	if (item == NULL)
		return -1;
	dir = &h->item[made];
	snprintf(item->name, sizeof(item->name), "%zu", h->n_items - 1);
	item->place = strdup(dir->place);
	if (item->place == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "apply");
	item->layer = dir->layer;
	item->kind = KODA__DRAFT_KIND__DRAFT_MODE;
	item->before = item->after =
	    (struct draft_side){ .type = dir->after.type, .mode = dir->after.mode };
	dir->after.mode |= PLAN_FILLABLE;
	item->before.mode |= PLAN_FILLABLE;
	return 0;
}

static int
add_in_pass(struct history *h, struct apply_plan *p, size_t k, unsigned pass,
    struct koda_error *err)
{
	struct planned *one = &p->v[k];

	if (one->fate != FATE_APPLY)
		return 0;
	if (one->change.path != NULL)
		return one->pass != pass ? 0 : add(h, one, p->take == KODA_TAKE_DRAFT, err);
	return pass == PLAN_CLOSE && h->item[one->item].kind == KODA__DRAFT_KIND__DRAFT_CREATED &&
		plan_is_closed(&h->item[one->item].after)
	    ? add_closing(h, one->item, err)
	    : 0;
}

static int
add_all(struct history *h, struct apply_plan *p, struct koda_error *err)
{
	plan_order(p);
	for (unsigned pass = 0; pass < PLAN_PASSES; pass++)
		for (size_t i = p->n; i > 0; i--) {
			const size_t k = pass >= PLAN_LAST ? i - 1 : p->n - i;

			if (add_in_pass(h, p, k, pass, err) < 0)
				return -1;
		}
	return 0;
}

static size_t *
count_up(size_t n)
{
	size_t *ret = malloc((n + 1) * sizeof(*ret));

	for (size_t i = 0; ret != NULL && i < n; i++)
		ret[i] = i;
	return ret;
}

static bool
did_anything(const struct history *h)
{
	for (size_t i = 0; i < h->n_items; i++)
		if (h->item[i].state == ITEM_DONE)
			return true;
	return false;
}

/* Runs the items that have no result yet. */
static int
run(struct koda_draft *d, struct history *h, koda_applied_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup_free size_t *order = count_up(h->n_items);
	struct turn t = { .history = h, .held = &d->held, .order = order, .fn = fn, .data = data };

	if (order == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "apply");
	for (size_t i = 0; i < h->n_items; i++)
		if (h->item[i].state == ITEM_PENDING)
			order[t.n++] = i;
	if (draft_hold(d, h->fd, err) < 0)
		return -1;
	return turn_run(&t, err);
}

/* Writes the merged texts into the draft, and tells of those that do not merge any more. *ret: what fn
 * returned. */
static int
merge_written(struct apply_plan *p, koda_applied_fn *fn, void *data, int *ret,
    struct koda_error *err)
{
	*ret = 0;
	if (p->take != KODA_TAKE_MERGE)
		return 0;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].was_clean = p->v[i].merged;
	if (merge_planned(p, MERGE_WRITE, err) < 0)
		return -1;
	for (size_t i = 0; *ret == 0 && i < p->n; i++)
		if (p->v[i].was_clean && !p->v[i].merged)
			*ret = tell(&p->v[i], KODA_APPLY_CONFLICT, fn, data);
	return 0;
}

/* Without a place for the history nothing is replaced. */
static int
without_history(const struct koda_draft *d, struct koda_error *err)
{
	return err_wrap(err,
	    "nothing was applied, because what is replaced is kept in '%.200s', where there has to be "
	    "room for this user",
	    d->like.state);
}

static int
carry_out(struct apply_plan *p, koda_applied_fn *fn, void *data, char *ret_undo,
    struct koda_error *err)
{
	struct koda_draft *d = p->draft;
	struct history h;
	int r;

	if (merge_written(p, fn, data, &r, err) < 0)
		return -1;
	if (r != 0)
		return r;
	if (history_make(d->like.state, d->like.root, d->draft.id, &h, err) < 0)
		return without_history(d, err);
	r = add_all(&h, p, err);
	if (r == 0 && h.n_items > 0 && history_write(&h, err) < 0)
		r = without_history(d, err);
	if (r == 0 && h.n_items > 0)
		r = run(d, &h, fn, data, err);
	/* The worker has a descriptor of the entry. */
	held_close(&d->held);
	own_done(&d->own);
	if (ret_undo != NULL && did_anything(&h))
		snprintf(ret_undo, KODA_HISTORY_ID_SIZE, "%s", h.id);
	if (did_anything(&h) || h.unfinished)
		history_close(&h);
	else
		history_remove(d->like.state, &h, NULL);
	return r;
}

/* What is left of a directory that the draft has replaced must be told from what is applied. */
static int
reveal_all(const struct apply_plan *p, struct koda_error *err)
{
	cleanup(reveal_done) struct reveal r = { .draft = &p->draft->draft,
		.gone = p->gone,
		.n_gone = p->n_gone };

	for (size_t i = 0; i < p->n; i++)
		if ((p->v[i].fate == FATE_APPLY || p->v[i].fate == FATE_DROPPED) &&
		    reveal_above(&r, p->v[i].change.layer, p->v[i].change.path, err) < 0)
			return -1;
	return 0;
}

static int
drop_projects(const struct apply_plan *p, struct koda_error *err)
{
	for (size_t i = p->n; i > 0; i--)
		if (p->v[i - 1].fate == FATE_DROPPED &&
		    change_drop(p->draft, &p->v[i - 1].change, err) < 0)
			return -1;
	return 0;
}

static int
stop_at_first(void *data, struct reviewed *c)
{
	return 1;
}

int
draft_remove_empty(struct koda_draft *d, struct koda_error *err)
{
	bool cut = false;
	int r;

	if (draft_hold(d, -1, err) < 0)
		return -1;
	r = changes_each(d, stop_at_first, NULL, &cut, err);
	if (r != 0 || cut)
		return r < 0 ? -1 : 0;
	held_close(&d->held);
	return draft_discard(d->like.state, &d->draft, err);
}

int
koda_draft_apply(struct koda_draft *draft, const struct koda_apply_options *options,
    koda_applied_fn *fn, void *data, char *ret_undo, struct koda_error *err)
{
	static const struct koda_apply_options everything;
	const struct koda_apply_options *o = options == NULL ? &everything : options;
	cleanup(plan_done) struct apply_plan p = { .draft = draft };
	int r;

	err_clear(err);
	if (ret_undo != NULL)
		ret_undo[0] = '\0';
	if (draft_look(draft, err) < 0 || make_plan(&p, o, err) < 0)
		return -1;
	r = tell_plan(&p, o->dry_run, fn, data);
	if (r == 0 && o->dry_run)
		r = tell_unlisted(&p, fn, data);
	if (r != 0 || o->dry_run)
		return r;
	if (reveal_all(&p, err) < 0 || drop_projects(&p, err) < 0)
		return -1;
	r = carry_out(&p, fn, data, ret_undo, err);
	if (r == 0)
		r = tell_unlisted(&p, fn, data);
	if (r >= 0 && draft_remove_empty(draft, err) < 0)
		return -1;
	return r;
}

/* ---- what a killed host began ---- */

int
apply_finish_begun(struct koda_draft *d, struct koda_error *err)
{
	char id[NAMED_ID_MAX + 1];
	int r;

	while ((r = history_begun(d->like.state, d->like.root, d->draft.id, id, err)) == 1) {
		struct history h;

		if (history_open(d->like.state, d->like.root, id, &h, err) < 0)
			return -1;
		r = run(d, &h, NULL, NULL, err);
		held_close(&d->held);
		if (did_anything(&h) || h.unfinished)
			history_close(&h);
		else
			history_remove(d->like.state, &h, NULL);
		if (r < 0)
			return -1;
	}
	return r;
}
