/* SPDX-License-Identifier: Apache-2.0 */
/* The history: koda_history_visit(), koda_history_changes(), koda_history_undo(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/context.h"
#include "host/context/entry.h"
#include "host/draft/history_file.h"
#include "host/machine/home.h"
#include "host/machine/state.h"
#include "host/review/select.h"
#include "host/review/settle.h"
#include "host/review/state.h"
#include "host/review/turn.h"
#include "host/workspace/keeping.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* ---- looking ---- */

struct history_visiting {
	koda_history_fn *fn;
	void *data;
};

static int
visit(void *data, const struct history *h)
{
	const struct history_visiting *v = data;
	struct koda_history_entry one = {
		.id = h->id,
		.root = h->root,
		.kind = h->draft[0] == '\0' ? KODA_HISTORY_FILES : KODA_HISTORY_DRAFT,
		.draft = h->draft,
		.begun = (double)h->begun_ns / 1e9,
		.changed = (double)h->changed_ns / 1e9,
		.bytes = h->bytes,
		.unfinished = h->unfinished && !h->in_use,
		.in_use = h->in_use,
	};

	for (size_t i = 0; i < h->n_items; i++) {
		if (history_closes(&h->item[i]))
			continue;
		one.changes += h->item[i].state == ITEM_DONE || h->item[i].state == ITEM_UNDONE;
		one.undone += h->item[i].state == ITEM_UNDONE;
	}
	/* A session that has changed nothing so far, or was killed before it did. */
	if (one.kind == KODA_HISTORY_FILES && one.changes == 0)
		return 0;
	return v->fn(v->data, &one);
}

int
koda_history_visit(const char *root, koda_history_fn *fn, void *data, struct koda_error *err)
{
	cleanup_free char *home = home_find(), *state = home == NULL ? NULL : state_path(home),
			  *real = root == NULL ? NULL : realpath(root, NULL);
	struct history_visiting v = { fn, data };

	err_clear(err);
	if (root != NULL && real == NULL)
		return err_set(err, KODA_INVALID, errno, "root '%s'", root);
	return state == NULL ? 0 : history_list(state, real, visit, &v, err);
}

int
koda_history_changes(const char *root, const char *id, koda_change_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup_free char *home = home_find(), *state = home == NULL ? NULL : state_path(home),
			  *real = realpath(root, NULL);
	struct history h;
	int r = 0;

	err_clear(err);
	if (real == NULL || state == NULL)
		return err_set(err, KODA_INVALID, errno, "root '%s'", root);
	if (history_look(state, real, id, &h, err) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < h.n_items; i++) {
		struct change_shown shown;

		if ((h.item[i].state != ITEM_DONE && h.item[i].state != ITEM_UNDONE) ||
		    history_closes(&h.item[i]))
			continue;
		item_show(&h.item[i], &shown);
		r = fn(data, &shown.change);
	}
	history_close(&h);
	return r;
}

/* ---- taking back ---- */

/* A git directory in which something was not taken back. */
struct kept_dir {
	char *dir; /* with its slash */
};

/* A git directory with objects that were applied. */
struct object_dir {
	const char *path; /* of an object, which begins with the directory's */
	size_t len;       /* with its slash */
};

struct undoing {
	bool objects; /* the turn is about objects of git, and about nothing else */
	struct kept_dir *kept;
	size_t n_kept;
	/* The git directories of all objects, sorted, each once; not their memory. */
	struct object_dir *object_dir;
	size_t n_object_dirs;
	koda_applied_fn *fn;
	void *data;
	int64_t since_ns;
	struct held_like like;
	struct holder held;
	struct history history;
	struct selection selection;
	struct turn turn;
};

static void
undoing_done(struct undoing *u)
{
	held_close(&u->held);
	history_close(&u->history);
	selection_done(&u->selection);
	held_like_done(&u->like);
	free(u->turn.order);
	while (u->n_kept > 0)
		free(u->kept[--u->n_kept].dir);
	free(u->kept);
	free(u->object_dir);
}

/* The last change first; doing again, the first one. */
static int
put_in_order(struct undoing *u, bool (*wanted)(struct undoing *u, const struct history_item *item),
    struct koda_error *err)
{
	struct history *h = &u->history;

	u->turn.n = 0;
	free(u->turn.order);
	u->turn.order = malloc((h->n_items + 1) * sizeof(*u->turn.order));
	if (u->turn.order == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "undo");
	for (size_t i = 0; i < h->n_items; i++) {
		const size_t k = u->turn.undo ? h->n_items - 1 - i : i;

		if (wanted(u, &h->item[k]))
			u->turn.order[u->turn.n++] = k;
	}
	return 0;
}

static bool
is_turning(struct undoing *u, const struct history_item *item)
{
	return item->turning;
}

/*
 * An index that git has refreshed since, or a branch that has moved on, is a conflict and stays. It
 * needs the objects that came with it, so those are taken back last, and only from a git directory in
 * which everything else was.
 */
/* Returns the length of the git directory's path with its slash, if the path is its objects, or below them. */
static size_t
object_of(const char *path)
{
	static const char objects[] = "/.git/objects";
	const char *at = strstr(path, objects);

	return at == NULL || (at[sizeof(objects) - 1] != '/' && at[sizeof(objects) - 1] != '\0')
	    ? 0
	    : (size_t)(at - path) + strlen("/.git/");
}

static int
compare_dirs(const void *a, const void *b)
{
	const struct object_dir *x = a, *y = b;
	const int r = memcmp(x->path, y->path, x->len < y->len ? x->len : y->len);

	return r != 0 ? r : x->len < y->len ? -1 : x->len > y->len;
}

static int
find_object_dirs(struct undoing *u, struct koda_error *err)
{
	const struct history *h = &u->history;
	size_t n = 0;

	u->object_dir = malloc((h->n_items + 1) * sizeof(*u->object_dir));
	if (u->object_dir == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "undo");
	for (size_t i = 0; i < h->n_items; i++) {
		const struct object_dir one = { h->item[i].place, object_of(h->item[i].place) };

		/* Most of them follow each other. */
		if (one.len > 0 && (n == 0 || compare_dirs(&u->object_dir[n - 1], &one) != 0))
			u->object_dir[n++] = one;
	}
	qsort(u->object_dir, n, sizeof(*u->object_dir), compare_dirs);
	u->n_object_dirs = n;
	return 0;
}

/* Was it made for objects, too? Then it is empty only after them: a directory that they are in. */
static bool
holds_objects(const struct undoing *u, const struct history_item *item)
{
	const size_t len = strlen(item->place);
	size_t from = 0, to = u->n_object_dirs;

	if (item->kind != KODA__DRAFT_KIND__DRAFT_CREATED ||
	    item->after.type != KODA__FILE_TYPE__FILE_DIRECTORY)
		return false;
	/* The first git directory that is not before "PLACE/". */
	while (from < to) {
		const size_t mid = from + (to - from) / 2;
		const struct object_dir *at = &u->object_dir[mid];
		const int r = strncmp(at->path, item->place, at->len < len ? at->len : len);

		if (r < 0 || (r == 0 && (at->len <= len || at->path[len] < '/')))
			from = mid + 1;
		else
			to = mid;
	}
	return from < u->n_object_dirs && path_is_inside(u->object_dir[from].path, item->place);
}

static bool
is_kept(const struct undoing *u, const char *path)
{
	const size_t len = object_of(path);

	for (size_t i = 0; i < u->n_kept; i++)
		if (strncmp(u->kept[i].dir, path, len) == 0 && strlen(u->kept[i].dir) == len)
			return true;
	return false;
}

static int
keep(struct undoing *u, const char *path)
{
	const char *at = strstr(path, "/.git/");
	struct kept_dir *grown;

	if (at == NULL)
		return 0;
	grown = reallocarray(u->kept, u->n_kept + 1, sizeof(*grown));
	if (grown == NULL)
		return -1;
	u->kept = grown;
	u->kept[u->n_kept].dir = strndup(path, (size_t)(at - path) + strlen("/.git/"));
	if (u->kept[u->n_kept].dir == NULL)
		return -1;
	u->n_kept++;
	return 0;
}

static int
on_taken_back(void *data, const struct koda_applied *one)
{
	struct undoing *u = data;

	if (u->turn.undo && !u->objects && one->outcome != KODA_APPLIED && keep(u, one->path) < 0)
		return -1;
	return u->fn == NULL ? 0 : u->fn(u->data, one);
}

static bool
is_selected(struct undoing *u, const struct history_item *item)
{
	if (item->state != (u->turn.undo ? ITEM_DONE : ITEM_UNDONE) ||
	    (item->at_ns != 0 ? item->at_ns : u->history.begun_ns) < u->since_ns ||
	    (!selection_has(&u->selection, item->place) &&
		(item->to == NULL || !selection_has(&u->selection, item->to))))
		return false;
	if (!u->turn.undo)
		return true;
	return (object_of(item->place) > 0 || holds_objects(u, item)) == u->objects &&
	    !is_kept(u, item->place);
}

/* A host was killed while it took this entry back, or did it again: finish that first. */
static int
finish_turn(struct undoing *u, struct koda_error *err)
{
	bool any = false;

	for (size_t i = 0; i < u->history.n_items; i++)
		any |= u->history.item[i].turning;
	if (!any)
		return 0;
	u->turn.undo = u->history.turn_undone;
	u->turn.fn = NULL;
	return put_in_order(u, is_turning, err) < 0 || turn_run(&u->turn, err) < 0 ? -1 : 0;
}

/* A host was killed while it applied the draft: opening the draft finishes that. Without the draft it
 * cannot be finished. */
static int
check_whole(struct undoing *u, struct koda_error *err)
{
	struct history *h = &u->history;
	struct draft d;
	bool any = false;

	for (size_t i = 0; i < h->n_items; i++)
		any |= h->item[i].state == ITEM_PENDING;
	if (!any)
		return 0;
	if (draft_open(u->like.state, u->like.root, h->draft, &d, err) < 0)
		return err->code == KODA_INVALID ? history_finish(h, err) : -1;
	draft_close(&d);
	return err_set(err, KODA_CONFLICT, 0,
	    "draft '%s' was not applied to the end: apply the rest of it, or discard it, first",
	    h->draft);
}

static int
tell_all(const struct undoing *u, koda_applied_fn *fn, void *data)
{
	int r = 0;

	for (size_t i = 0; r == 0 && fn != NULL && i < u->turn.n; i++) {
		const struct history_item *item = &u->history.item[u->turn.order[i]];
		const struct koda_applied one = { item->place, (enum koda_change_kind)item->kind,
			KODA_APPLIED, NULL, NULL, NULL, NULL, false };

		r = fn(data, &one);
	}
	return r;
}

static int
run_turn(struct undoing *u, const struct koda_undo_options *o, struct koda_error *err)
{
	if (put_in_order(u, is_selected, err) < 0)
		return -1;
	if (o->dry_run)
		return tell_all(u, u->fn, u->data);
	if (u->turn.n == 0)
		return 0;
	for (size_t i = 0; i < u->turn.n; i++) {
		struct history_item *item = &u->history.item[u->turn.order[i]];

		item->turning = true;
		item->take = o->take == KODA_TAKE_DRAFT;
	}
	if (history_turn(&u->history, u->turn.undo, err) < 0)
		return -1;
	u->turn.fn = on_taken_back;
	u->turn.data = u;
	return turn_run(&u->turn, err);
}

static int
run(struct undoing *u, const struct koda_undo_options *o, struct koda_error *err)
{
	int r;

	if (check_whole(u, err) < 0 || finish_turn(u, err) < 0 || find_object_dirs(u, err) < 0)
		return -1;
	u->turn.undo = !o->redo;
	r = run_turn(u, o, err);
	if (r == 0 && u->turn.undo) {
		u->objects = true;
		r = run_turn(u, o, err);
	}
	if (r == 0 && selection_unused(&u->selection) != NULL)
		return err_set(err, KODA_INVALID, 0, "nothing to %s is at '%.300s'",
		    o->redo ? "do again" : "take back", selection_unused(&u->selection));
	return r;
}

int
koda_history_undo(struct koda_session *session, const char *id,
    const struct koda_undo_options *options, koda_applied_fn *fn, void *data,
    struct koda_error *err)
{
	static const struct koda_undo_options everything;
	const struct koda_undo_options *o = options == NULL ? &everything : options;
	cleanup(undoing_done) struct undoing u = { .history = HISTORY_CLOSED };

	err_clear(err);
	if (session_check(session, err) < 0 || held_like(session, &u.like, err) < 0)
		return -1;
	if (id == NULL)
		return err_set(err, KODA_INVALID, 0, "an entry of the history has an id");
	if (keeping_is(session, id) && keeping_turn_over(session, err) < 0)
		return -1;
	if (selection_take(&u.selection, u.like.root, o->paths, o->n_paths, err) < 0 ||
	    history_open(u.like.state, u.like.root, id, &u.history, err) < 0 ||
	    held_open(&u.held, &u.like, NULL, u.history.fd, err) < 0)
		return -1;
	if (settle_entry(&u.history, &u.held) && history_read_again(&u.history, err) < 0)
		return -1;
	u.turn.history = &u.history;
	u.turn.held = &u.held;
	u.since_ns = (int64_t)(o->since * 1e9);
	u.fn = fn;
	u.data = data;
	return run(&u, o, err);
}
