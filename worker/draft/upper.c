/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define CAPABILITY  "security.capability"
#define ORIGIN      "user.overlay.origin"
#define OPAQUE      "user.overlay.opaque"
#define WHITEOUT    "user.overlay.whiteout"
#define REDIRECT    "user.overlay.redirect"
#define METACOPY    "user.overlay.metacopy"
#define PATH_SIZE   (16 + NAME_LEN_MAX + 1) /* a descriptor's number, a slash, a name */
#define LIST_SIZE   1024                    /* overlayfs's own attributes fit */
#define LIST_LARGE  (64u << 10)             /* the kernel has no longer list */
#define OPAQUE_SIZE 8

static int64_t
ns_of(struct statx_timestamp t)
{
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

int
upper_stat(int dir, const char *name, struct upper_stat *ret)
{
	struct stat *st = &ret->st;
	struct statx sx;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME,
		&sx) < 0)
		return -1;
	memset(st, 0, sizeof(*st));
	st->st_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor);
	st->st_rdev = makedev(sx.stx_rdev_major, sx.stx_rdev_minor);
	st->st_ino = sx.stx_ino;
	st->st_mode = sx.stx_mode;
	st->st_nlink = sx.stx_nlink;
	st->st_uid = sx.stx_uid;
	st->st_gid = sx.stx_gid;
	st->st_size = (off_t)sx.stx_size;
	st->st_mtim = (struct timespec){ sx.stx_mtime.tv_sec, sx.stx_mtime.tv_nsec };
	st->st_ctim = (struct timespec){ sx.stx_ctime.tv_sec, sx.stx_ctime.tv_nsec };
	ret->birth_ns = (sx.stx_mask & STATX_BTIME) != 0 ? ns_of(sx.stx_btime) : 0;
	ret->mounted = (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
	return 0;
}

/* ---- attributes ---- */

struct marks {
	bool opaque, whiteout, redirect, metacopy, capability, origin;
};

static void
take_marks(const char *list, size_t n, struct marks *ret)
{
	for (size_t at = 0; at < n; at += strlen(list + at) + 1) {
		ret->opaque |= strcmp(list + at, OPAQUE) == 0;
		ret->whiteout |= strcmp(list + at, WHITEOUT) == 0;
		ret->redirect |= strcmp(list + at, REDIRECT) == 0;
		ret->metacopy |= strcmp(list + at, METACOPY) == 0;
		ret->origin |= strcmp(list + at, ORIGIN) == 0;
		ret->capability |= strcmp(list + at, CAPABILITY) == 0;
	}
}

/* Lists the attributes of a name once, instead of asking for each. path: below /proc/self/fd. */
static int
find_marks(const char *path, struct marks *ret)
{
	cleanup_free char *large = NULL;
	char list[LIST_SIZE];
	ssize_t n = llistxattr(path, list, sizeof(list));

	*ret = (struct marks){ 0 };
	if (n < 0 && errno == ERANGE) {
		large = malloc(LIST_LARGE);
		n = large == NULL ? -1 : llistxattr(path, large, LIST_LARGE);
	}
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	take_marks(large != NULL ? large : list, (size_t)n, ret);
	return 0;
}

static int
look_at_directory(const char *path, struct upper *ret)
{
	char value[OPAQUE_SIZE];
	struct marks m;
	ssize_t n;

	if (find_marks(path, &m) < 0)
		return -1;
	ret->kind = m.redirect ? UPPER_UNKNOWN : UPPER_DIR;
	if (!m.opaque || m.redirect)
		return 0;
	n = getxattr(path, OPAQUE, value, sizeof(value));
	/* A command took the permission to read the directory: its names cannot be listed either. */
	if (n < 0 && errno == EACCES)
		return 0;
	if (n < 0 && errno != ERANGE)
		return -1;
	ret->kind = n == 1 && value[0] == 'y' ? UPPER_OPAQUE : UPPER_UNKNOWN;
	return 0;
}

static int
look_at_file(const char *path, struct upper *ret)
{
	struct marks m;

	if (find_marks(path, &m) < 0)
		return -1;
	ret->kind = m.metacopy                   ? UPPER_UNKNOWN
	    : m.whiteout && ret->st.st_size == 0 ? UPPER_DELETED
						 : UPPER_FILE;
	ret->capabilities = m.capability;
	ret->copied_up = m.origin;
	return 0;
}

int
upper_look(int proc_fd, int dir, const char *name, struct upper *ret)
{
	char path[PATH_SIZE];
	struct upper_stat at;
	int r = 0;

	*ret = (struct upper){ .kind = UPPER_NONE };
	if (upper_stat(dir, name, &at) < 0)
		return errno == ENOENT ? 0 : -1;
	ret->st = at.st;
	ret->birth_ns = at.birth_ns;
	/* The worker's working directory is /proc/self/fd, as proc_fd is. */
	(void)proc_fd;
	snprintf(path, sizeof(path), "%d/%s", dir, name);
	switch (ret->st.st_mode & S_IFMT) {
	case S_IFREG:
		r = look_at_file(path, ret);
		break;
	case S_IFDIR:
		r = look_at_directory(path, ret);
		break;
	case S_IFLNK:
		ret->kind = UPPER_LINK;
		break;
	case S_IFCHR:
		ret->kind = ret->st.st_rdev == makedev(0, 0) ? UPPER_DELETED : UPPER_SPECIAL;
		break;
	default:
		ret->kind = UPPER_SPECIAL;
		break;
	}
	if (r == 0)
		return 0;
	ret->kind = UPPER_NONE;
	return errno == ENOENT ? 0 : -1;
}
