/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/view_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/caches.h"
#include "host/policy/defaults.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "shared/rules/names.h"

/* How many mounts a plan may have before duplicates are merged: bounds the work, not the
 * project. */
#define PATHS_MAX 65536

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "view");
}

/* Prefix for paths below dir: "" for "/". */
static const char *
below(const char *dir)
{
	return strcmp(dir, "/") == 0 ? "" : dir;
}

/* ---- what may be written ---- */

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
push(char ***v, size_t *n, const char *path, struct koda_error *err)
{
	char **grown = reallocarray(*v, *n + 1, sizeof(*grown)), *copy;

	if (grown == NULL)
		return no_memory(err);
	*v = grown;
	copy = strdup(path);
	if (copy == NULL)
		return no_memory(err);
	grown[(*n)++] = copy;
	return 0;
}

/* Keeps only the outermost: a containing directory sorts before what is in it. */
static void
outermost(char **v, size_t *n)
{
	size_t kept = 0;

	if (*n > 1)
		qsort(v, *n, sizeof(*v), by_text);
	for (size_t i = 0; i < *n; i++) {
		if (view_dir_of(v, kept, v[i]) != NULL)
			free(v[i]);
		else
			v[kept++] = v[i];
	}
	*n = kept;
}

/* Sets *ret to whether anything in the directory may be written, apart from the question whether
 * allow_write names it. Asks for a name in it that no rule names; if a rule does, the answer is
 * no. */
static int
is_open(const struct access_subject *who, const char *dir, bool *ret, struct koda_error *err)
{
	cleanup_free char *path = NULL;
	struct access_verdict v;

	if (asprintf(&path, "%s/\001", dir) < 0) {
		path = NULL;
		return no_memory(err);
	}
	v = access_judge(who, ACCESS_OP_WRITE, path, NULL);
	*ret = v.allowed || v.rule == ACCESS_RULE_ALLOW_WRITE;
	return 0;
}

static int
add_writable(const struct access_subject *who, const char *dir, struct view *v,
    struct koda_error *err)
{
	static const char *const needed[] = { "/dev", "/proc", "/run" };
	char shown[256];
	bool open = false;

	/* Binding it would cover what the sandbox itself is built from. */
	for (size_t i = 0; i < N_ELEMENTS(needed); i++) {
		if (!path_is_inside(needed[i], dir))
			continue;
		bytes_show(shown, sizeof(shown), dir, strlen(dir));
		err_set(err, KODA_INVALID, 0,
		    "commands cannot get all of '%s' writable: allow a directory below it instead",
		    shown);
		return err_about(err, dir, access_rule_name(ACCESS_RULE_ALLOW_WRITE));
	}
	if (is_open(who, dir, &open, err) < 0)
		return -1;
	return open ? push(&v->writable, &v->n_writable, dir, err) : 0;
}

/*
 * Is the cache private, that is, covered by a layer? One in a writable directory is: otherwise a
 * command could write the host's. A cache that the policy itself allows writing is the host's own,
 * as a whole or a directory in it; then there is no layer around that directory, so the rest of
 * that cache is read-only.
 */
static bool
is_private(const struct view_input *in, const char *cache)
{
	const struct policy_list *allow = &in->policy->list[KODA_ALLOW_WRITE];
	bool named = false;

	for (size_t i = 0; i < allow->n; i++) {
		if (path_is_below(cache, allow->v[i]))
			return true;
		named = named || path_is_inside(allow->v[i], cache);
	}
	for (size_t i = 0; i < in->n_also; i++)
		named = named || path_is_inside(in->also[i], cache);
	return !named;
}

static int
add_cache(const struct view_input *in, const struct access_subject *who, const char *cache,
    struct view *v, struct koda_error *err)
{
	size_t before = v->n_writable;

	if (in->policy->flag[KODA_SHARE_CACHES])
		return add_writable(who, cache, v, err);
	if (!is_private(in, cache))
		return 0;
	if (add_writable(who, cache, v, err) < 0)
		return -1;
	return v->n_writable > before ? push(&v->cache, &v->n_caches, cache, err) : 0;
}

static int
plan_writable(const struct view_input *in, struct view *v, struct koda_error *err)
{
	const struct policy_list *allow = &in->policy->list[KODA_ALLOW_WRITE];
	const struct access_subject who = { in->policy, in->mode, in->home, in->state };

	v->otherwise = access_rule_name(ACCESS_RULE_ALLOW_WRITE);
	if (in->mode == KODA_PLAN || in->policy->trust == KODA_TRUST_FORBID) {
		v->otherwise = access_rule_name(ACCESS_RULE_TRUST);
		return 0;
	}
	for (size_t i = 0; i < allow->n; i++) {
		if (add_writable(&who, allow->v[i], v, err) < 0)
			return -1;
	}
	/* A slot that may change nothing does not need them. */
	for (size_t i = 0; allow->n > 0 && i < in->n_also; i++) {
		if (add_writable(&who, in->also[i], v, err) < 0)
			return -1;
	}
	for (size_t i = 0; allow->n > 0 && i < in->n_caches; i++) {
		if (add_cache(in, &who, in->caches[i], v, err) < 0)
			return -1;
	}
	if (allow->n > 0 && in->spare && !in->policy->flag[KODA_SHARE_CACHES])
		v->spare = CACHES_SPARE;
	outermost(v->writable, &v->n_writable);
	return 0;
}

/* The project and the home directory, where commands look for things. */
static int
plan_shown(const struct view_input *in, struct view *v, struct koda_error *err)
{
	const char *const wanted[] = { in->root, in->home };

	for (size_t i = 0; i < N_ELEMENTS(wanted); i++) {
		const char *path = wanted[i];
		const char *private = path != NULL && path[0] == '/' ? view_private_of(path) : NULL;

		if (private == NULL || strcmp(private, path) == 0 ||
		    view_dir_of(v->writable, v->n_writable, path) != NULL)
			continue;
		if (push(&v->shown, &v->n_shown, path, err) < 0)
			return -1;
	}
	outermost(v->shown, &v->n_shown);
	return 0;
}

/* ---- mounts ---- */

static int
add_mount(struct view *v, enum view_mount_kind kind, const char *path,
    const struct view_place *place, enum access_rule why, struct koda_error *err)
{
	struct view_mount *grown;
	char *copy;

	if (v->n_mounts >= PATHS_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "more than %d places to protect", PATHS_MAX);
	/* Doubles the array whenever the number of mounts is a power of two. */
	if ((v->n_mounts & (v->n_mounts - 1)) == 0) {
		grown =
		    reallocarray(v->mount, v->n_mounts > 0 ? 2 * v->n_mounts : 1, sizeof(*grown));
		if (grown == NULL)
			return no_memory(err);
		v->mount = grown;
	}
	copy = strdup(path);
	if (copy == NULL)
		return no_memory(err);
	v->mount[v->n_mounts++] = (struct view_mount){
		.kind = kind,
		.path = copy,
		.dev = place != NULL ? place->dev : 0,
		.ino = place != NULL ? place->ino : 0,
		.why = access_rule_name(why),
		.plain = kind == VIEW_PIN && why == ACCESS_RULE_GIT_CONFIG,
	};
	return 0;
}

/* Pins each directory on the way: a mount moves with the directory that contains it, unless that
 * directory is a mount too. What is hidden stays hidden. */
static int
add_pins(const struct policy *p, struct view *v, const char *path, const char *dir,
    struct koda_error *err)
{
	cleanup_free char *part = strdup(path);

	if (part == NULL)
		return no_memory(err);
	for (char *slash = strchr(part + strlen(below(dir)) + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (policy_reads(p, part, NULL) &&
		    add_mount(v, VIEW_PIN, part, NULL, ACCESS_RULE_TREE, err) < 0)
			return -1;
		*slash = '/';
	}
	return 0;
}

/* Adds a place below a writable directory that must not be changed. What cannot be seen cannot be
 * changed either. */
static int
add_protected(const struct view_input *in, struct view *v, enum view_mount_kind kind,
    const char *path, const struct view_place *place, enum access_rule why, struct koda_error *err)
{
	const char *dir = view_dir_of(v->writable, v->n_writable, path);

	if (dir == NULL || strcmp(dir, path) == 0 || !policy_reads(in->policy, path, NULL))
		return 0;
	if (add_pins(in->policy, v, path, dir, err) < 0)
		return -1;
	return add_mount(v, kind, path, place, why, err);
}

static int
add_named(const struct view_input *in, struct view *v, const char *dir, const char *name,
    enum access_rule why, struct koda_error *err)
{
	cleanup_free char *path = NULL;

	if (dir == NULL || dir[0] != '/')
		return 0;
	if (asprintf(&path, "%s/%s", below(dir), name) < 0) {
		path = NULL;
		return no_memory(err);
	}
	return add_protected(in, v, VIEW_READ_ONLY, path, NULL, why, err);
}

/* For private caches in a writable directory: pins the directories on the way, or a command could
 * put another one in their place. */
static int
plan_caches(const struct view_input *in, struct view *v, struct koda_error *err)
{
	for (size_t i = 0; i < v->n_caches; i++) {
		const char *dir = view_dir_of(v->writable, v->n_writable, v->cache[i]);

		if (dir != NULL && strcmp(dir, v->cache[i]) != 0 &&
		    add_pins(in->policy, v, v->cache[i], dir, err) < 0)
			return -1;
	}
	return 0;
}

/* Adds a hidden place and pins its parents, or a command could move what is hidden to where it is
 * not. */
static int
add_hidden(const struct view_input *in, struct view *v, const char *path, enum access_rule why,
    struct koda_error *err)
{
	const char *dir = view_dir_of(v->writable, v->n_writable, path);

	if (!view_is_of_host(v, path))
		return 0;
	if (dir != NULL && add_pins(in->policy, v, path, dir, err) < 0)
		return -1;
	if (add_mount(v, VIEW_HIDE, path, NULL, why, err) < 0)
		return -1;
	v->mount[v->n_mounts - 1].outside = dir == NULL;
	return 0;
}

/* Does a rule hide a directory above it? */
static bool
is_below_deny(const struct policy *p, const char *path)
{
	const struct policy_list *deny = &p->list[KODA_DENY_READ];

	for (size_t i = 0; i < deny->n; i++) {
		if (path_is_below(path, deny->v[i]))
			return true;
	}
	return false;
}

/* Does the policy allow reading in the directory that contains path? A rule with the same result is
 * not needed. */
static bool
parent_reads(const struct policy *p, const char *path)
{
	char parent[PATH_LEN_MAX + 1];
	const char *slash = strrchr(path, '/');
	size_t len = slash == path ? 1 : (size_t)(slash - path);

	if (len > PATH_LEN_MAX)
		return true;
	memcpy(parent, path, len);
	parent[len] = '\0';
	return policy_reads(p, parent, NULL);
}

static int
plan_reading(const struct view_input *in, struct view *v, struct koda_error *err)
{
	const struct policy_list *deny = &in->policy->list[KODA_DENY_READ];
	const struct policy_list *holes = &in->policy->list[KODA_ALLOW_READ_WITHIN_DENY];

	for (size_t i = 0; i < deny->n; i++) {
		if (strcmp(deny->v[i], "/") == 0)
			return err_set(err, KODA_INVALID, 0,
			    "the policy denies reading '/': commands cannot run");
		if (parent_reads(in->policy, deny->v[i]) &&
		    add_hidden(in, v, deny->v[i], ACCESS_RULE_DENY_READ, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < holes->n; i++) {
		if (policy_reads(in->policy, holes->v[i], NULL) &&
		    !parent_reads(in->policy, holes->v[i]) && view_is_of_host(v, holes->v[i]) &&
		    add_mount(v, VIEW_HOLE, holes->v[i], NULL, ACCESS_RULE_READ_HOLE, err) < 0)
			return -1;
	}
	/* What may be written may be read: it gets a hole, or is in one. */
	for (size_t i = 0; i < v->n_writable; i++) {
		if (is_below_deny(in->policy, v->writable[i]) &&
		    add_mount(v, VIEW_WRITABLE_HOLE, v->writable[i], NULL, ACCESS_RULE_ALLOW_WRITE,
			err) < 0)
			return -1;
	}
	for (size_t i = 0; in->home[0] == '/' && default_hidden[i] != NULL; i++) {
		cleanup_free char *path = NULL;

		if (asprintf(&path, "%s/%s", below(in->home), default_hidden[i]) < 0) {
			path = NULL;
			return no_memory(err);
		}
		if (policy_reads(in->policy, path, NULL) &&
		    add_hidden(in, v, path, ACCESS_RULE_FULLY_DENIED, err) < 0)
			return -1;
	}
	/* Also where the policy hides it anyway: otherwise a hole of the policy could show it
	 * again. */
	return in->state != NULL && in->state[0] == '/'
	    ? add_hidden(in, v, in->state, ACCESS_RULE_FULLY_DENIED, err)
	    : 0;
}

/*
 * Is it enough to mount the place only if it exists (plan_places)? Not a rule `dir/name`: it pins
 * `dir` even if the name does not exist in it, so that a command cannot put something there by
 * moving `dir`. A name that is protected at any depth is left to the comparison, which finds it
 * wherever it comes from; so `.github` or `.bundle` can be removed.
 */
static bool
is_left_to_places(const struct policy *p, const struct view *v, const char *path)
{
	const char *rule = names_rule_at(&p->list[KODA_DENY_WRITE_NAMES], path);

	/* The comparison does not look for names in a cache. */
	for (size_t i = 0; i < v->n_caches; i++) {
		if (path_is_inside(path, v->cache[i]))
			return false;
	}
	return rule != NULL && strchr(rule, '/') != NULL;
}

static int
plan_writing(const struct view_input *in, struct view *v, struct koda_error *err)
{
	const struct policy_list *deny = &in->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW];

	for (size_t i = 0; i < deny->n; i++) {
		if (is_left_to_places(in->policy, v, deny->v[i]))
			continue;
		if (add_protected(in, v, VIEW_READ_ONLY, deny->v[i], NULL, ACCESS_RULE_DENY_WRITE,
			err) < 0)
			return -1;
	}
	for (size_t i = 0; default_koda[i] != NULL; i++) {
		if (add_named(in, v, in->root, default_koda[i], ACCESS_RULE_KODA_PLACE, err) < 0 ||
		    add_named(in, v, in->home, default_koda[i], ACCESS_RULE_KODA_PLACE, err) < 0)
			return -1;
	}
	return 0;
}

/* The worker reports .koda like git directories: other programs take instructions from both. */
static bool
is_koda_place(const char *path)
{
	const char *at = strcasestr(path, "/.koda");

	while (at != NULL && at[6] != '/' && at[6] != '\0')
		at = strcasestr(at + 1, "/.koda");
	return at != NULL;
}

static int
plan_places(const struct view_input *in, struct view *v, struct koda_error *err)
{
	for (size_t i = 0; i < in->n_places; i++) {
		const struct view_place *place = &in->places[i];
		enum view_mount_kind kind =
		    place->kind == VIEW_PLACE_GIT_DIR ? VIEW_PIN : VIEW_READ_ONLY;
		enum access_rule why = place->kind == VIEW_PLACE_RULE ? ACCESS_RULE_DENY_WRITE
		    : place->kind == VIEW_PLACE_NAME                  ? ACCESS_RULE_DENY_NAME
		    : is_koda_place(place->path)                      ? ACCESS_RULE_KODA_PLACE
								      : ACCESS_RULE_GIT_CONFIG;

		if (in->policy->flag[KODA_ALLOW_GIT_CONFIG] && why == ACCESS_RULE_GIT_CONFIG)
			continue;
		if (add_protected(in, v, kind, place->path, place, why, err) < 0)
			return -1;
	}
	return 0;
}

/* A writable directory is a mount already, but the plan still has to mark it as a git directory. */
static int
plan_git_dir(const struct view_input *in, struct view *v, struct koda_error *err)
{
	if (in->git_dir == NULL || in->policy->flag[KODA_ALLOW_GIT_CONFIG] ||
	    view_dir_of(v->writable, v->n_writable, in->git_dir) == NULL)
		return 0;
	return add_mount(v, VIEW_PIN, in->git_dir, NULL, ACCESS_RULE_GIT_CONFIG, err);
}

/* If two mounts are at the same place, the stronger one is kept. */
static int
strength(const struct view_mount *m)
{
	switch (m->kind) {
	case VIEW_PIN:
		return strcmp(m->why, access_rule_name(ACCESS_RULE_TREE)) == 0 ? 0 : 1;
	case VIEW_READ_ONLY:
		return 2;
	case VIEW_HOLE:
		return 3;
	case VIEW_WRITABLE_HOLE:
		return 4;
	case VIEW_HIDE:
		return 5;
	}
	return 6;
}

static int
by_path_and_strength(const void *a, const void *b)
{
	const struct view_mount *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	if (r == 0)
		r = strength(y) - strength(x);
	if (r == 0) /* prefer a place that the worker has seen */
		r = (y->ino != 0) - (x->ino != 0);
	return r != 0 ? r : strcmp(x->why, y->why);
}

static void
merge(struct view *v)
{
	size_t kept = 0;

	if (v->n_mounts > 1)
		qsort(v->mount, v->n_mounts, sizeof(*v->mount), by_path_and_strength);
	for (size_t i = 0; i < v->n_mounts; i++) {
		struct view_mount *m = &v->mount[i], *last = kept > 0 ? &v->mount[kept - 1] : NULL;

		if (last == NULL || strcmp(last->path, m->path) != 0) {
			v->mount[kept++] = *m;
			continue;
		}
		last->plain = last->plain || m->plain;
		if (last->ino == 0) {
			last->dev = m->dev;
			last->ino = m->ino;
		}
		free(m->path);
	}
	v->n_mounts = kept;
}

int
view_plan(const struct view_input *in, struct view *ret, struct koda_error *err)
{
	cleanup(view_done) struct view v = { 0 };

	if (plan_writable(in, &v, err) < 0 || plan_caches(in, &v, err) < 0 ||
	    plan_shown(in, &v, err) < 0 || plan_reading(in, &v, err) < 0)
		return -1;
	if (!in->draft &&
	    (plan_writing(in, &v, err) < 0 || plan_places(in, &v, err) < 0 ||
		plan_git_dir(in, &v, err) < 0))
		return -1;
	merge(&v);
	*ret = v;
	v = (struct view){ 0 };
	return 0;
}
