/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/linked_places.h"

#include <limits.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/follow.h"
#include "stage2/place_watch.h"
#include "stage2/view.h"

/*
 * Returns true if commands can work without the place. It contains no directory that they write,
 * and it is not part of the system that they run from. Nor does it contain a place of the plan: the
 * worker checks these through the same view, and takes a place that it does not see there for gone.
 */
static bool
is_apart(const struct slot_view *v, const char *path)
{
	static const char *const systems[] = { "/proc", "/sys", "/dev", "/usr", "/bin", "/sbin",
		"/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/run" };

	for (size_t i = 0; i < N_ELEMENTS(systems); i++)
		if (path_is_inside(path, systems[i]))
			return false;
	for (size_t i = 0; i < v->n_roots; i++)
		if (path_is_inside(v->root[i], path))
			return false;
	for (size_t i = 0; i < v->n; i++)
		if (!v->entry[i].linked && path_is_inside(v->entry[i].path, path))
			return false;
	return true;
}

/* Look for links on the way to places that are to be hidden and do not exist. Returns true if
 * there is a new target. */
static bool
follow_once(struct stage2 *s)
{
	struct slot_view *v = s->view;
	char path[PATH_MAX];
	bool found = false;
	size_t at;

	for (size_t i = 0, n = v->n; i < n; i++) {
		const struct view_entry *e = &v->entry[i];
		int r;

		if (e->kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE || e->outside || e->there ||
		    e->linked || !follow_path(e->path, path) || !is_apart(v, path))
			continue;
		r = view_add_linked(v, path, &at);
		if (r < 0 || (r > 0 && place_watch_add(s->watch, v, at) < 0))
			_exit(1); /* a place to be hidden would stay visible */
		found = found || r > 0;
	}
	return found;
}

void
linked_places_follow(struct stage2 *s)
{
	/* Repeat this, because a link may have changed before its target was watched. */
	for (int i = 0; i < VIEW_LINKED_MAX && follow_once(s); i++)
		;
}
