/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/draft_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/draft/draft_differ.h"
#include "worker/draft/draft_git.h"
#include "worker/draft/draft_repo.h"
#include "worker/draft/draft_shape.h"
#include "worker/files/change.h"
#include "worker/say.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* What a name became while it was looked at: gone, or not a directory any more. */
static bool
is_gone(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

static struct draft_id
id_of(const struct stat *st)
{
	return (struct draft_id){ st->st_dev, st->st_ino };
}

int
draft_open_project(struct session *ses, size_t layer, struct koda_error *err)
{
	const struct draft_layer *l = &ses->layer[layer];
	const size_t len = strlen(l->path);
	cleanup_close int fd = resolve_canonical_dir(&ses->res, l->path, len);
	struct koda_error dropped;
	struct stat st;

	if (fd < 0 && !is_gone(errno))
		return say(err, KODA_IO, errno, "open", l->path);
	/* A descriptor of the root stays the root's wherever it was moved: ask for its path. */
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != l->dev || st.st_ino != l->ino ||
	    resolve_verify(&ses->res, fd, l->path, len, &dropped) < 0)
		return say(err, KODA_CONFLICT, 0,
		    "another directory took the place of the one that the draft belongs to:",
		    l->path);
	return take_fd(&fd);
}

/* ---- levels ---- */

static void
close_level(struct draft_level *l)
{
	close_at(&l->upper);
	close_at(&l->lower);
	l->upper = l->lower = -1;
	draft_names_done(&l->names);
}

static int
read_names(struct draft_walk *w, int fd, struct draft_level *l, struct koda_error *err)
{
	int r = draft_names_read(&l->names, fd, &w->left, w->buf, sizeof(w->buf));

	if (r < 0)
		return say(err, errno == ENOMEM ? KODA_INTERNAL : KODA_IO, errno,
		    "read the directory", w->path);
	w->cut |= r > 0;
	return 0;
}

/* Adds the names that a directory in the project has and that the draft deletes. */
static int
read_deleted(struct draft_walk *w, struct draft_level *l, struct koda_error *err)
{
	cleanup_close int fd = -1;

	if (!l->opaque || l->lower < 0)
		return 0;
	fd = openat(l->lower, ".", OPEN_DIR);
	if (fd < 0 && errno == EACCES) {
		w->cut = true;
		return 0;
	}
	if (fd < 0)
		return say(err, KODA_IO, errno, "read the directory", w->path);
	return read_names(w, fd, l, err);
}

/* Below the levels that stay open, only the deepest one is. If it is not in the project, the last
 * one that is stays open there. */
static void
close_parent(struct draft_walk *w, const struct draft_level *child)
{
	struct draft_level *parent;

	if (w->n_levels <= DRAFT_FDS_KEPT)
		return;
	parent = draft_walk_top(w);
	draft_shape_learn(w, parent);
	close_at(&parent->upper);
	parent->upper = -1;
	if (!child->in_project)
		return;
	close_at(&parent->lower);
	parent->lower = -1;
}

/* Takes over `upper` and `lower`. w->path is the directory's path. */
static int
push_level(struct draft_walk *w, struct draft_level fresh, struct koda_error *err)
{
	struct draft_level *l;

	fresh.len = strlen(w->path) == 1 ? 0 : strlen(w->path);
	if (read_names(w, fresh.upper, &fresh, err) < 0 || read_deleted(w, &fresh, err) < 0) {
		close_level(&fresh);
		return -1;
	}
	/* It is too deep. */
	if (w->n_levels == DRAFT_DEPTH_MAX) {
		w->cut |= fresh.names.n > 0;
		close_level(&fresh);
		return 0;
	}
	if (draft_names_sort(&fresh.names) < 0) {
		close_level(&fresh);
		return err_set(err, KODA_INTERNAL, ENOMEM, "list a draft");
	}
	close_parent(w, &fresh);
	l = &w->level[w->n_levels++];
	*l = fresh;
	return 0;
}

/* Opens the directory above `fd`, which must be that one. */
static int
open_above(const struct draft_walk *w, int fd, struct draft_id id, int flags,
    struct koda_error *err)
{
	cleanup_close int above = openat(fd, "..", flags | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (above < 0 || fstat(above, &st) < 0)
		return say(err, KODA_IO, errno, "open the directory of", w->path);
	if (st.st_dev != id.dev || st.st_ino != id.ino)
		return say_of(err, KODA_CONFLICT, 0, w->path, "was moved meanwhile");
	return take_fd(&above);
}

static int
pop_level(struct draft_walk *w, struct koda_error *err)
{
	struct draft_level *child = draft_walk_top(w), *l;
	int r = 0;

	w->path[child->len] = '\0';
	if (--w->n_levels > 0) {
		l = draft_walk_top(w);
		if (l->upper < 0)
			l->upper = open_above(w, child->upper, l->upper_id, O_RDONLY, err);
		if (l->upper < 0)
			r = -1;
		if (r == 0 && l->in_project && l->lower < 0)
			l->lower = open_above(w, child->lower, l->lower_id, O_PATH, err);
		if (l->in_project && l->lower < 0)
			r = -1;
	}
	close_level(child);
	return r;
}

/* ---- names ---- */

/*
 * What overlayfs has looked up it does not look up again: when another process of the user replaces the
 * file, commands still see the old one, and that is what they change. So the draft's version may be
 * made of what the project had at any time since the draft was mounted.
 */
static int64_t
seen_since(const struct session *ses, int64_t birth_ns)
{
	const int64_t mounted =
	    birth_ns >= ses->draft_mounted_ns ? ses->draft_mounted_ns : ses->draft_made_ns;

	return mounted != 0 && mounted < birth_ns ? mounted : birth_ns;
}

/* Opens a directory of the draft, and returns -1 with EACCES also if names in it cannot be looked up:
 * a command can take that permission alone. */
static int
open_searchable(int dir, const char *name)
{
	cleanup_close int fd = openat(dir, name, OPEN_DIR), again = -1;

	if (fd < 0)
		return -1;
	again = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return again < 0 ? -1 : take_fd(&fd);
}

static int
look(struct draft_walk *w, const char *name, struct koda_error *err)
{
	const struct draft_level *l = draft_walk_top(w);
	struct draft_name *n = &w->name;

	w->makes_repo = false;
	n->name = name;
	n->fd = -1;
	if (upper_look(w->ses->res.proc_fd, l->upper, name, &n->up) < 0)
		return say(err, KODA_IO, errno, "examine, in the draft,", w->path);
	n->up.birth_ns = seen_since(w->ses, n->up.birth_ns);
	n->in_project = l->in_project && upper_stat(l->lower, name, &n->low) == 0;
	if (!n->in_project && l->in_project && !is_gone(errno))
		return say(err, KODA_IO, errno, "examine", w->path);
	if (n->up.kind != UPPER_DIR && n->up.kind != UPPER_OPAQUE)
		return 0;
	n->fd = open_searchable(l->upper, name);
	if (n->fd >= 0 || errno == EACCES)
		return 0;
	if (!is_gone(errno))
		return say(err, KODA_IO, errno, "open, in the draft,", w->path);
	n->up.kind = UPPER_NONE;
	return 0;
}

/* Goes into the directory that was looked at, if there is anything to see in it. */
static int
enter(struct draft_walk *w, struct koda_error *err)
{
	const struct draft_level *l = draft_walk_top(w);
	struct draft_name *n = &w->name;
	const struct draft_change *made = w->n_changes > 0 ? &w->change[w->n_changes - 1] : NULL;
	struct draft_level fresh = { .upper = -1, .lower = -1 };

	if (n->fd < 0 || (n->in_project && n->low.mounted))
		return 0;
	fresh.upper_id = id_of(&n->up.st);
	if (n->in_project && S_ISDIR(n->low.st.st_mode)) {
		fresh.lower =
		    openat(l->lower, n->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fresh.lower < 0 && !is_gone(errno))
			return say(err, KODA_IO, errno, "open", w->path);
		fresh.in_project = fresh.lower >= 0;
		fresh.lower_id = id_of(&n->low.st);
		/* What the project has in it is not known: the draft's names in it are not listed. */
		if (fresh.in_project && faccessat(fresh.lower, ".", X_OK, AT_EACCESS) < 0) {
			close_at(&fresh.lower);
			w->cut = true;
			return 0;
		}
	}
	/* Below a directory that hides the project's, overlayfs marks none. */
	fresh.opaque = l->opaque || n->up.kind == UPPER_OPAQUE;
	fresh.opaque_ns = l->opaque ? l->opaque_ns : n->up.birth_ns;
	fresh.renewed = l->renewed ||
	    (fresh.opaque && fresh.in_project &&
		(int64_t)change_ctime_ns(&n->low.st) >= fresh.opaque_ns);
	fresh.below_refs = draft_git_is_below_refs(w, n->name);
	fresh.in_repo = l->in_repo || w->makes_repo;
	fresh.is_refused = l->is_refused;
	if (l->is_refused)
		fresh.refusal = l->refusal;
	if (made != NULL && made->kind == KODA__DRAFT_KIND__DRAFT_CREATED && made->is_refused) {
		fresh.is_refused = true;
		fresh.refusal = made->refusal;
	}
	if (fresh.opaque && fresh.in_project && !fresh.is_refused)
		fresh.is_refused = draft_repo_replaces(w, &fresh.refusal);
	fresh.upper = take_fd(&n->fd);
	return push_level(w, fresh, err);
}

static int
visit(struct draft_walk *w, const char *name, struct koda_error *err)
{
	const size_t len = draft_walk_top(w)->len, k = strlen(name);
	int r;

	w->n_changes = 0;
	/* No operation could name it. */
	if (len + 1 + k > PATH_LEN_MAX) {
		w->cut = true;
		return 0;
	}
	w->path[len] = '/';
	memcpy(w->path + len + 1, name, k + 1);
	r = look(w, name, err);
	if (r == 0)
		r = draft_differ(w, err);
	if (r == 0)
		r = enter(w, err);
	close_at(&w->name.fd);
	w->name.fd = -1;
	return r;
}

int
draft_walk_next(struct draft_walk *w, struct koda_error *err)
{
	w->n_changes = 0;
	while (w->n_levels > 0 && w->n_changes == 0) {
		struct draft_level *l = draft_walk_top(w);

		if (l->next < l->names.n) {
			if (visit(w, l->names.name[l->next++], err) < 0)
				return -1;
		} else if (pop_level(w, err) < 0) {
			return -1;
		}
	}
	return w->n_changes > 0 ? 1 : 0;
}

/* ---- looking ahead ---- */

/* Begins in the directory that w has just looked at, which the project does not have. Returns NULL with
 * *err set. */
static struct draft_walk *
begin_ahead(struct draft_walk *w, struct koda_error *err)
{
	struct draft_level top = { .upper = -1, .lower = -1, .in_repo = true };
	struct draft_walk *ahead = calloc(1, sizeof(*ahead));

	if (ahead == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "list a draft");
		return NULL;
	}
	ahead->ses = w->ses;
	ahead->layer = w->layer;
	ahead->left = w->ahead_left;
	ahead->begun_ns = w->begun_ns;
	ahead->name.fd = -1;
	memcpy(ahead->path, w->path, sizeof(ahead->path));
	top.upper_id = id_of(&w->name.up.st);
	top.upper = openat(w->name.fd, ".", OPEN_DIR);
	if (top.upper < 0)
		say(err, KODA_IO, errno, "open, in the draft,", w->path);
	if (top.upper < 0 || push_level(ahead, top, err) < 0) {
		draft_walk_free(ahead);
		return NULL;
	}
	return ahead;
}

static void
note_refused(const struct draft_walk *ahead, struct draft_ahead *ret)
{
	for (size_t i = 0; i < ahead->n_changes; i++) {
		const struct draft_change *c = &ahead->change[i];

		if (!c->is_refused || strcmp(c->refusal.rule, "git_lock") == 0)
			continue;
		ret->refused = true;
		snprintf(ret->path, sizeof(ret->path), "%.*s", PATH_LEN_MAX, ahead->path);
		ret->refusal = c->refusal;
	}
}

static int
look_ahead(struct draft_walk *w, struct draft_ahead *ret, struct koda_error *err)
{
	struct draft_walk *ahead = begin_ahead(w, err);
	int r = 0;

	*ret = (struct draft_ahead){ 0 };
	if (ahead == NULL)
		return -1;
	while (!ret->refused && (r = draft_walk_next(ahead, err)) > 0)
		note_refused(ahead, ret);
	ret->cut = ahead->cut;
	w->ahead_left = ahead->left;
	draft_walk_free(ahead);
	return ret->refused || r == 0 ? 0 : -1;
}

struct draft_walk *
draft_walk_new(struct session *ses, size_t layer, struct koda_error *err)
{
	struct draft_level top = { .upper = -1, .lower = -1, .in_project = true };
	struct upper_stat root;
	struct draft_walk *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "list a draft");
		return NULL;
	}
	w->ses = ses;
	w->layer = layer;
	w->left = w->ahead_left = DRAFT_ENTRIES_MAX;
	w->look_ahead = look_ahead;
	w->name.fd = -1;
	snprintf(w->path, sizeof(w->path), "%s", ses->layer[layer].path);
	top.lower = draft_open_project(ses, layer, err);
	if (top.lower < 0) {
		draft_walk_free(w);
		return NULL;
	}
	top.upper = openat(ses->layer[layer].fd, ".", OPEN_DIR);
	if (top.upper < 0) {
		err_set(err, KODA_IO, errno, "read the draft");
		close_level(&top);
		draft_walk_free(w);
		return NULL;
	}
	if (upper_stat(top.upper, ".", &root) == 0)
		w->begun_ns = seen_since(ses, root.birth_ns);
	if (push_level(w, top, err) < 0) {
		draft_walk_free(w);
		return NULL;
	}
	return w;
}

void
draft_walk_free(struct draft_walk *w)
{
	if (w == NULL)
		return;
	while (w->n_levels > 0)
		close_level(&w->level[--w->n_levels]);
	names_index_free(w->names);
	free(w);
}

/* ---- going on ---- */

/* Leaves out what was reported before. */
static void
drop_until(struct draft_walk *w, Koda__DraftKind kind)
{
	size_t n = 0;

	while (n < w->n_changes && w->change[n].kind != kind)
		n++;
	n = n < w->n_changes ? n + 1 : 0;
	if (n == 0 && kind != KODA__DRAFT_KIND__DRAFT_DELETED)
		n = w->n_changes;
	if (n == 1 && w->n_changes == 2)
		w->change[0] = w->change[1];
	w->n_changes -= n;
}

int
draft_walk_seek(struct draft_walk *w, const char *path, Koda__DraftKind kind,
    struct koda_error *err)
{
	const struct draft_level *top = draft_walk_top(w);

	if (!path_is_below(path, w->ses->layer[w->layer].path))
		return say(err, KODA_INVALID, 0, "not in this layer of the draft:", path);
	for (const char *at = path + top->len; *at == '/';) {
		struct draft_level *l = draft_walk_top(w);
		const size_t depth = w->n_levels, k = strcspn(at + 1, "/");
		const bool last = at[1 + k] == '\0';
		const char *name;

		l->next = draft_names_from(&l->names, at + 1, k);
		name = l->next < l->names.n ? l->names.name[l->next] : "";
		if (strlen(name) != k || memcmp(name, at + 1, k) != 0)
			break;
		l->next++;
		if (visit(w, name, err) < 0)
			return -1;
		if (last)
			drop_until(w, kind);
		else
			w->n_changes = 0;
		if (w->n_levels == depth)
			break;
		at += 1 + k;
	}
	return 0;
}
