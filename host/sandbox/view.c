/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/view.h"

#include <stdlib.h>
#include <string.h>

#include "host/sandbox/bwrap.h"
#include "shared/base/bytes.h"
#include "shared/rules/access.h"

void
view_done(struct view *v)
{
	for (size_t i = 0; i < v->n_writable; i++)
		free(v->writable[i]);
	for (size_t i = 0; i < v->n_shown; i++)
		free(v->shown[i]);
	for (size_t i = 0; i < v->n_mounts; i++)
		free(v->mount[i].path);
	for (size_t i = 0; i < v->n_caches; i++)
		free(v->cache[i]);
	free(v->writable);
	free(v->cache);
	free(v->shown);
	free(v->mount);
	*v = (struct view){ 0 };
}

const char *
view_private_of(const char *path)
{
	for (size_t i = 0; bwrap_private[i] != NULL; i++) {
		if (path_is_inside(path, bwrap_private[i]))
			return bwrap_private[i];
	}
	return NULL;
}

const char *
view_dir_of(char *const *dirs, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++) {
		if (path_is_inside(path, dirs[i]))
			return dirs[i];
	}
	return NULL;
}

bool
view_is_of_host(const struct view *v, const char *path)
{
	return view_private_of(path) == NULL ||
	    view_dir_of(v->writable, v->n_writable, path) != NULL ||
	    view_dir_of(v->shown, v->n_shown, path) != NULL;
}

static bool
answer(bool yes, const char *why, const char **ret_why)
{
	if (ret_why != NULL)
		*ret_why = why;
	return yes;
}

/* Is path in a directory that leads from a private place to one of dirs? stage2 makes such
 * directories read-only. */
static bool
is_on_way(const char *private, char *const *dirs, size_t n, const char *path)
{
	size_t len = strlen(private) + 1;

	for (size_t i = 0; i < n; i++) {
		const char *slash;
		size_t way;

		if (!path_is_below(dirs[i], private))
			continue;
		slash = strchr(dirs[i] + len, '/');
		way = slash == NULL ? 0 : (size_t)(slash - dirs[i]);
		if (way != 0 && strncmp(path, dirs[i], way) == 0 &&
		    (path[way] == '/' || path[way] == '\0'))
			return true;
	}
	return false;
}

bool
view_writes(const struct view *v, const char *path, const char **ret_why)
{
	const char *private = view_private_of(path);
	const char *why = access_rule_name(ACCESS_RULE_ALLOW_WRITE);
	bool yes = true;

	if (!view_is_of_host(v, path) &&
	    (is_on_way(private, v->writable, v->n_writable, path) ||
		is_on_way(private, v->shown, v->n_shown, path)))
		return answer(false, why, ret_why);
	if (!view_is_of_host(v, path))
		/* In /run commands may write the runtime directory and the directory for caches. */
		return strcmp(private, "/run") != 0 || path_is_inside(path, "/run/user") ||
			(v->spare != NULL && path_is_inside(path, v->spare))
		    ? answer(true, why, ret_why)
		    : answer(false, why, ret_why);
	if (view_dir_of(v->writable, v->n_writable, path) == NULL)
		return answer(false, v->otherwise != NULL ? v->otherwise : why, ret_why);
	for (size_t i = 0; i < v->n_mounts; i++) {
		const struct view_mount *m = &v->mount[i];

		if (!path_is_inside(path, m->path))
			continue;
		if (m->kind == VIEW_WRITABLE_HOLE) {
			yes = true;
			why = m->why;
		} else if (m->kind != VIEW_PIN || strcmp(path, m->path) == 0) {
			yes = false;
			why = m->why;
		}
	}
	return answer(yes, yes && view_is_cached(v, path) ? "private_cache" : why, ret_why);
}

bool
view_shows(const struct view *v, const char *path, const char **ret_why)
{
	const char *why = access_rule_name(ACCESS_RULE_DEFAULT_READ);
	bool yes = true;

	for (size_t i = 0; view_is_of_host(v, path) && i < v->n_mounts; i++) {
		const struct view_mount *m = &v->mount[i];

		if (!path_is_inside(path, m->path) || m->kind == VIEW_PIN ||
		    m->kind == VIEW_READ_ONLY)
			continue;
		yes = m->kind != VIEW_HIDE;
		why = m->why;
	}
	return answer(yes, why, ret_why);
}

bool
view_has(const struct view *v, const char *path)
{
	for (size_t i = 0; bwrap_private[i] != NULL; i++) {
		if (strcmp(path, bwrap_private[i]) == 0 && strcmp(path, "/run") != 0 &&
		    view_dir_of(v->writable, v->n_writable, path) == NULL)
			return true;
	}
	return view_is_of_host(v, path) && view_writes(v, path, NULL);
}

bool
view_is_cached(const struct view *v, const char *path)
{
	return view_dir_of(v->cache, v->n_caches, path) != NULL;
}

bool
view_binds(const struct view *v, const char *dir)
{
	const char *cache = view_dir_of(v->cache, v->n_caches, dir);

	return cache == NULL || strcmp(cache, dir) != 0;
}
