/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"

int
shape_open(const struct shape *shape, const char *path, size_t dir_len)
{
	const int flags = O_PATH | O_DIRECTORY;
	size_t n = strlen(shape->path) == 1 ? 0 : strlen(shape->path);
	char below[PATH_LEN_MAX + 1];

	if (dir_len < n || dir_len > PATH_LEN_MAX || memcmp(path, shape->path, n) != 0 ||
	    (dir_len > n && path[n] != '/')) {
		errno = ENOENT;
		return -1;
	}
	if (dir_len <= n + 1)
		return openat(shape->fd, ".", flags | O_CLOEXEC);
	memcpy(below, path + n + 1, dir_len - n - 1);
	below[dir_len - n - 1] = '\0';
	return shape->res->no_openat2 ? open_walked(shape->fd, below, flags)
				      : open_beneath(shape->fd, below, flags);
}

/* Has an open directory that name? What cannot be looked at may have it. */
static bool
has_name(int dir, const char *name, bool whiteouts_too)
{
	struct stat st;

	if (dir < 0)
		return errno != ENOENT && errno != ENOTDIR;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT && errno != ENOTDIR;
	return whiteouts_too || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(0, 0);
}

bool
shape_has(void *data, const char *path, size_t dir_len, const char *name)
{
	struct shape *shape = data;
	cleanup_close int project = resolve_canonical_dir(shape->res, path, dir_len), layer = -1;

	shape->asked = true;
	if (has_name(project, name, true))
		return true;
	layer = shape_open(shape, path, dir_len);
	return has_name(layer, name, false);
}
