#include "host/draft/drop.h"

#include <errno.h>
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

int
draft_drop(const struct draft *d, size_t layer, const char *path, struct koda_error *err)
{
	const struct draft_dir *dir = &d->dir[layer];
	const size_t above = strcmp(dir->path, "/") == 0 ? 0 : strlen(dir->path);
	const char *relative, *name;
	char part[PATH_LEN_MAX + 1];
	cleanup_close int upper = -1, parent = -1, trash = -1;

	if (!path_is_inside(path, dir->path) || strlen(path) <= above + 1)
		return err_set(err, KODA_INVALID, 0, "that is not in draft '%s'", d->id);
	relative = path + above + 1;
	snprintf(part, sizeof(part), "%s/u", dir->name);
	upper = open_beneath(d->fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	/* overlayfs's own directory is emptied before each mount. */
	snprintf(part, sizeof(part), "%s/w", dir->name);
	trash = open_beneath(d->fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (upper < 0 || trash < 0)
		return failed(d, path, err);
	if (is_replaced(upper, relative))
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "a directory above '%s' was replaced as a whole: forget that one", relative);
	name = strrchr(relative, '/');
	if (name == NULL) {
		return remove_name(upper, relative, trash) < 0 ? failed(d, path, err) : 0;
	}
	snprintf(part, sizeof(part), "%.*s", (int)(name - relative), relative);
	parent = open_beneath(upper, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (parent < 0)
		return errno == ENOENT ? 0 : failed(d, path, err);
	return remove_name(parent, name + 1, trash) < 0 ? failed(d, path, err) : 0;
}
