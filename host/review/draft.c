/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts: finding, opening, closing and forgetting them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/context.h"
#include "host/context/entry.h"
#include "host/draft/drop.h"
#include "host/machine/home.h"
#include "host/machine/state.h"
#include "host/review/apply.h"
#include "host/review/select.h"
#include "host/review/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* ---- all of them ---- */

struct drafts_visiting {
	koda_drafted_fn *fn;
	void *data;
};

static int
visit(void *data, const struct draft *d)
{
	const struct drafts_visiting *v = data;
	const struct koda_drafted one = { d->id, d->root, (double)d->begun_ns / 1e9, d->in_use };

	return v->fn(v->data, &one);
}

int
koda_drafts_visit(const char *root, koda_drafted_fn *fn, void *data, struct koda_error *err)
{
	cleanup_free char *home = home_find(), *state = home == NULL ? NULL : state_path(home),
			  *real = root == NULL ? NULL : realpath(root, NULL);
	struct drafts_visiting v = { fn, data };

	err_clear(err);
	if (root != NULL && real == NULL)
		return err_set(err, KODA_INVALID, errno, "root '%s'", root);
	return state == NULL ? 0 : draft_list(state, real, visit, &v, err);
}

/* ---- one ---- */

int
draft_hold(struct koda_draft *d, int history_fd, struct koda_error *err)
{
	if (d->held.slot != NULL && d->held.seal.history_fd == history_fd)
		return 0;
	held_close(&d->held);
	return held_open(&d->held, &d->like, &d->draft, history_fd, err);
}

int
draft_look(struct koda_draft *d, struct koda_error *err)
{
	if (d->draft.fd < 0)
		return err_set(err, KODA_INVALID, 0, "the draft is gone already");
	return d->held.slot != NULL ? 0 : draft_hold(d, -1, err);
}

struct koda_draft *
koda_draft_open(struct koda_session *session, const char *id, struct koda_error *err)
{
	struct koda_draft *d;

	err_clear(err);
	if (session_check(session, err) < 0)
		return NULL;
	if (id == NULL || id[0] == '\0') {
		err_set(err, KODA_INVALID, 0, "a draft is opened by its id");
		return NULL;
	}
	d = calloc(1, sizeof(*d));
	if (d == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "draft");
		return NULL;
	}
	d->draft = DRAFT_CLOSED;
	if (held_like(session, &d->like, err) == 0 &&
	    draft_open(d->like.state, d->like.root, id, &d->draft, err) == 0 &&
	    apply_finish_begun(d, err) == 0 && draft_hold(d, -1, err) == 0)
		return d;
	koda_draft_close(d);
	return NULL;
}

void
koda_draft_close(struct koda_draft *draft)
{
	if (draft == NULL)
		return;
	held_close(&draft->held);
	own_done(&draft->own);
	draft_close(&draft->draft);
	held_like_done(&draft->like);
	free(draft);
}

/* ---- forgetting ---- */

static bool
is_directory(const struct draft_side *s)
{
	return s->type == KODA__FILE_TYPE__FILE_DIRECTORY;
}

int
change_drop(const struct koda_draft *d, const struct reviewed *c, struct koda_error *err)
{
	return c->kind == KODA__DRAFT_KIND__DRAFT_MODE && is_directory(&c->before)
	    ? draft_drop_mode(&d->draft, c->layer, c->path, c->before.mode, err)
	    : draft_drop(&d->draft, c->layer, c->path, err);
}

struct dropping {
	struct selection selection;
	struct reviewed *v;
	size_t n, size;
	size_t text; /* bytes */
	/* The last directory that is forgotten with all that is in it, or NULL; and something in it that
	 * was not selected, or NULL. */
	const char *whole;
	char *left;
};

static void
dropping_done(struct dropping *d)
{
	while (d->n > 0)
		change_done(&d->v[--d->n]);
	free(d->v);
	free(d->left);
	selection_done(&d->selection);
}

/* Returns 1 if it cannot be done: too much, or d->left. */
static int
note(void *data, struct reviewed *c)
{
	struct dropping *d = data;
	const bool selected = selection_has(&d->selection, c->path);
	const bool made = c->kind == KODA__DRAFT_KIND__DRAFT_CREATED && is_directory(&c->after);

	/* A name whose type changed is two changes, and both go at once. */
	if (d->n > 0 && c->kind != KODA__DRAFT_KIND__DRAFT_DELETED &&
	    strcmp(d->v[d->n - 1].path, c->path) == 0) {
		d->whole = made ? d->v[d->n - 1].path : d->whole;
		return 0;
	}
	if (d->whole != NULL && c->layer == d->v[d->n - 1].layer &&
	    path_is_inside(c->path, d->whole)) {
		d->left = selected ? NULL : strdup(c->path);
		return selected ? 0 : d->left == NULL ? -1 : 1;
	}
	if (!selected)
		return 0;
	d->text += change_text(c);
	if (d->text > HISTORY_TEXT_MAX)
		return 1;
	if (d->n == d->size) {
		const size_t more = d->size == 0 ? 64 : 2 * d->size;
		struct reviewed *grown = reallocarray(d->v, more, sizeof(*grown));

		if (grown == NULL)
			return -1;
		d->v = grown;
		d->size = more;
	}
	d->v[d->n++] = *c;
	d->whole = made ? c->path : NULL;
	*c = (struct reviewed){ 0 };
	return 0;
}

static int
find_dropped(struct koda_draft *draft, struct dropping *d, struct koda_error *err)
{
	int r;

	err_clear(err);
	r = changes_each(draft, note, d, NULL, err);
	if (r < 0)
		return err->code != KODA_OK ? -1 : err_set(err, KODA_INTERNAL, ENOMEM, "draft");
	if (d->left != NULL)
		return err_set(err, KODA_INVALID, 0,
		    "'%.200s' is not selected, and the directory that it is in is: select the "
		    "directory by its path, or not at all",
		    d->left);
	if (r > 0)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "the names of the changes are more than %zu MiB: discard a part of them, or the "
		    "whole draft",
		    HISTORY_TEXT_MAX >> 20);
	if (selection_unused(&d->selection) != NULL)
		return err_set(err, KODA_INVALID, 0, "nothing that was changed is at '%.300s'",
		    selection_unused(&d->selection));
	return 0;
}

static int
drop_some(struct koda_draft *draft, const char *const *paths, size_t n, struct koda_error *err)
{
	cleanup(dropping_done) struct dropping d = { 0 };

	if (selection_take(&d.selection, draft->like.root, paths, n, err) < 0 ||
	    find_dropped(draft, &d, err) < 0)
		return -1;
	/* The last one first: what is in a directory before the directory. */
	for (size_t i = d.n; i > 0; i--)
		if (change_drop(draft, &d.v[i - 1], err) < 0)
			return -1;
	return 0;
}

int
koda_draft_discard(struct koda_draft *draft, const char *const *paths, size_t n,
    struct koda_error *err)
{
	err_clear(err);
	if (draft_look(draft, err) < 0)
		return -1;
	if (n > 0)
		return drop_some(draft, paths, n, err) < 0 || draft_remove_empty(draft, err) < 0
		    ? -1
		    : 0;
	held_close(&draft->held);
	return draft_discard(draft->like.state, &draft->draft, err);
}
