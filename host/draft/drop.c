/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/drop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "host/caches/cache_tree.h"
#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define OPAQUE "user.overlay.opaque"

static int
failed(const struct draft *d, const char *path, struct koda_error *err)
{
	err_set(err, KODA_IO, errno, "forget the change in draft '%s'", d->id);
	return err_about(err, path, NULL);
}

/* Does anything above the name hide what the project has there? */
static bool
is_replaced(int upper, const char *relative)
{
	char part[PATH_LEN_MAX + 1];

	for (const char *at = relative; (at = strchr(at, '/')) != NULL; at++) {
		cleanup_close int dir = -1;
		char value;

		snprintf(part, sizeof(part), "%.*s", (int)(at - relative), relative);
		dir = open_beneath(upper, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (dir >= 0 && fgetxattr(dir, OPAQUE, &value, 1) > 0)
			return true;
	}
	return false;
}

static int
remove_name(int parent, const char *name, int trash)
{
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	if (cache_tree_discard(parent, name, trash) < 0)
		return -1;
	return cache_tree_empty(trash, CACHE_NO_DEADLINE) > 0 ? 0 : -1;
}

/* A name in a layer, and where the layer's names go to be removed. */
struct dropped {
	int upper, parent, trash; /* parent -1: the directory is gone */
	const char *relative, *name;
};

static void
dropped_done(struct dropped *n)
{
	close_at(&n->upper);
	close_at(&n->parent);
	close_at(&n->trash);
}

static int
find(const struct draft *d, size_t layer, const char *path, struct dropped *ret,
    struct koda_error *err)
{
	const struct draft_dir *dir = &d->dir[layer];
	const size_t above = strcmp(dir->path, "/") == 0 ? 0 : strlen(dir->path);
	char part[PATH_LEN_MAX + 1];
	const char *slash;

	if (!path_is_inside(path, dir->path) || strlen(path) <= above + 1)
		return err_set(err, KODA_INVALID, 0, "that is not in draft '%s'", d->id);
	ret->relative = path + above + 1;
	snprintf(part, sizeof(part), "%s/u", dir->name);
	ret->upper = open_beneath(d->fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	/* overlayfs's own directory is emptied before each mount. */
	snprintf(part, sizeof(part), "%s/w", dir->name);
	ret->trash = open_beneath(d->fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (ret->upper < 0 || ret->trash < 0)
		return failed(d, path, err);
	slash = strrchr(ret->relative, '/');
	ret->name = slash == NULL ? ret->relative : slash + 1;
	snprintf(part, sizeof(part), "%.*s", slash == NULL ? 1 : (int)(slash - ret->relative),
	    slash == NULL ? "." : ret->relative);
	ret->parent = open_beneath(ret->upper, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	return ret->parent >= 0 || errno == ENOENT ? 0 : failed(d, path, err);
}

int
draft_drop(const struct draft *d, size_t layer, const char *path, struct koda_error *err)
{
	cleanup(dropped_done) struct dropped n = { .upper = -1, .parent = -1, .trash = -1 };

	if (find(d, layer, path, &n, err) < 0)
		return -1;
	if (is_replaced(n.upper, n.relative))
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "a directory above '%s' was replaced as a whole: forget that one", n.relative);
	if (n.parent < 0)
		return 0;
	return remove_name(n.parent, n.name, n.trash) < 0 ? failed(d, path, err) : 0;
}

int
draft_drop_mode(const struct draft *d, size_t layer, const char *path, uint32_t mode,
    struct koda_error *err)
{
	cleanup(dropped_done) struct dropped n = { .upper = -1, .parent = -1, .trash = -1 };
	cleanup_close int fd = -1;
	char link[32];

	if (find(d, layer, path, &n, err) < 0)
		return -1;
	if (n.parent >= 0)
		fd = openat(n.parent, n.name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : failed(d, path, err);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return chmod(link, mode & 07777) < 0 ? failed(d, path, err) : 0;
}
