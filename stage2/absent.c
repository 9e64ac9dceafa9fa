/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/absent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/mirror.h"
#include "stage2/mounts.h"

static bool
is_pinned(const void *data, const char *path)
{
	const struct slot_view *v = data;

	for (size_t i = 0; i < v->n; i++)
		if (path_is_inside(v->entry[i].path, path))
			return true;
	return false;
}

/*
 * Returns the length of the path of the nearest directory on the way to a hidden place that does
 * not exist, or 0 if there is nothing to do. A link counts as missing: the plan does not name its
 * target. The root directory itself cannot be mounted over, but only root makes names in it.
 */
static size_t
nearest_directory(const char *path)
{
	cleanup_free char *part = strdup(path);
	cleanup_close int fd = resolve(AT_FDCWD, path);
	struct stat st;
	size_t len;

	if (fd < 0 && (errno == EACCES || part == NULL))
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode))
		return 0;
	for (len = strlen(path); part != NULL && len > 0; part[len] = '\0') {
		cleanup_close int up = -1;

		while (len > 0 && path[--len] != '/')
			;
		part[len] = '\0';
		up = len > 0 ? resolve(AT_FDCWD, part) : -1;
		if (up >= 0 && fstat(up, &st) == 0 && S_ISDIR(st.st_mode))
			return len;
	}
	return 0;
}

/*
 * Returns the mirror of that directory. A new one is added to the view after every entry that
 * contains it. Returns NULL if memory is short.
 */
static struct mirror *
mirror_at(struct slot_view *v, const char *path, size_t len)
{
	struct view_entry *e, new = { .kind = KODA__MOUNT_KIND__MOUNT_KIND_PIN };
	size_t at = 0;

	for (size_t i = 0; i < v->n; i++)
		if (v->entry[i].mirror != NULL && strlen(v->entry[i].path) == len &&
		    strncmp(v->entry[i].path, path, len) == 0)
			return v->entry[i].mirror;
	new.path = strndup(path, len);
	e = new.path == NULL ? NULL : reallocarray(v->entry, v->n + 2, sizeof(*e));
	if (e == NULL || (new.mirror = mirror_new(new.path, is_pinned, v)) == NULL) {
		v->entry = e != NULL ? e : v->entry;
		free(new.path);
		return NULL;
	}
	v->entry = e;
	for (size_t i = 0; i < v->n; i++)
		if (path_is_inside(new.path, e[i].path))
			at = i + 1;
	memmove(&e[at + 1], &e[at], (v->n - at) * sizeof(*e));
	e[at] = new;
	v->n++;
	return new.mirror;
}

int
absent_add_mirrors(struct slot_view *v, struct koda_error *err)
{
	for (size_t i = 0; i < v->n; i++) {
		const char *path = v->entry[i].path;
		struct mirror *m;
		size_t len;

		if (v->entry[i].kind != KODA__MOUNT_KIND__MOUNT_KIND_HIDE || !v->entry[i].outside ||
		    v->entry[i].masked || (len = nearest_directory(path)) == 0)
			continue;
		v->entry[i].masked = true;
		m = mirror_at(v, path, len);
		if (m == NULL || mirror_hide(m, path + len + 1) < 0)
			return err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		/* A mirror that was inserted before this entry has moved it by one. */
		if (v->entry[i].path != path)
			i++;
	}
	return 0;
}
