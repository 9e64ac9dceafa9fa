/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/cache_points.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/state.h"
#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define LIST "mounted-on"
/* How much of it is read: some hundred paths. */
#define LIST_MAX (1u << 20)
/* The list can disappear between opening and locking it: another slot has removed it, which
 * takes microseconds. */
#define OPEN_TRIES 100

/* ---- the list ---- */

static int
open_list(const char *home, struct cache_points *ret)
{
	cleanup_free char *caches = state_all_caches_path(home), *path = NULL;

	if (caches == NULL || state_make(caches) < 0 || asprintf(&path, "%s/" LIST, caches) < 0) {
		path = NULL;
		return -1;
	}
	for (int i = 0; i < OPEN_TRIES; i++) {
		cleanup_close int fd =
		    open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0 && errno == ENOENT && state_make(caches) == 0)
			continue;
		/* The exclusive lock is held only while some directories are removed. */
		if (fd < 0 || flock(fd, LOCK_SH) < 0)
			return -1;
		if (!state_is_there(fd, path))
			continue;
		ret->fd = take_fd(&fd);
		ret->path = take_ptr(&path);
		return 0;
	}
	return -1;
}

/* ---- making ---- */

/* List the path before making it: if the host is killed in between, the list names a directory
 * that does not exist. */
static int
make_one(const struct cache_points *p, int dir, const char *path)
{
	size_t len = strlen(path) + 1;

	if (p->fd >= 0 && write(p->fd, path, len) != (ssize_t)len)
		return -1;
	return mkdirat(dir, strrchr(path, '/') + 1, 0777) < 0 && errno != EEXIST ? -1 : 0;
}

/* Make the directory and all directories above it, none of which may be a link. Returns an
 * O_PATH descriptor, or -1. */
static int
make_place(const struct cache_points *p, const char *path)
{
	char part[PATH_LEN_MAX + 1];
	size_t len = strlen(path);
	cleanup_close int fd = -1;

	if (len >= sizeof(part))
		return -1;
	memcpy(part, path, len + 1);
	/* Find the nearest directory that exists. */
	while ((fd = open_plain(AT_FDCWD, len > 0 ? part : "/",
		    O_PATH | O_DIRECTORY | O_NOFOLLOW)) < 0) {
		if (errno != ENOENT || len == 0)
			return -1;
		while (len > 0 && part[--len] != '/')
			;
		part[len] = '\0';
	}
	while (path[len] != '\0') {
		len += 1 + strcspn(path + len + 1, "/");
		memcpy(part, path, len);
		part[len] = '\0';
		if (make_one(p, fd, part) < 0)
			return -1;
		close_at(&fd);
		fd = open_plain(AT_FDCWD, part, O_PATH | O_DIRECTORY | O_NOFOLLOW);
		if (fd < 0)
			return -1;
	}
	return take_fd(&fd);
}

int
cache_points_make(const char *home, const char *const *path, size_t n, struct cache_points *ret,
    struct koda_error *err)
{
	struct cache_points p = CACHE_POINTS_NONE;

	/* Without a list the directories are made as well, and stay. */
	if (n > 0)
		open_list(home, &p);
	for (size_t i = 0; i < n; i++) {
		cleanup_close int fd = make_place(&p, path[i]);

		/* On a read-only file system no command can make it either. */
		if (fd >= 0 || errno == EROFS)
			continue;
		err_set(err, KODA_UNSUPPORTED, errno,
		    "'%.300s' is a cache of this user's tools in a directory that commands may "
		    "write. The host cannot make that directory, which it needs as the mount "
		    "point of a private cache",
		    path[i]);
		cache_points_done(&p, true);
		return -1;
	}
	*ret = p;
	return 0;
}

/* ---- removing ---- */

static void
remove_place(char *path)
{
	char *slash = strrchr(path, '/');
	cleanup_close int dir = -1;

	*slash = '\0';
	dir = open_plain(AT_FDCWD, slash == path ? "/" : path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	*slash = '/';
	if (dir >= 0)
		unlinkat(dir, slash + 1, AT_REMOVEDIR);
}

/* Begin at the end, because the list names a directory before the directories in it. */
static void
remove_all(int fd)
{
	cleanup_free char *text = malloc(LIST_MAX + 1);
	ssize_t n = text == NULL ? -1 : pread(fd, text, LIST_MAX, 0);

	if (n <= 0)
		return;
	text[n] = '\0';
	while (n > 0) {
		char *end = text + --n;
		char *at = end;

		*end = '\0';
		while (at > text && at[-1] != '\0')
			at--;
		if (path_is_canonical(at, strlen(at)) && strlen(at) > 1)
			remove_place(at);
		n = at - text;
	}
}

void
cache_points_done(struct cache_points *p, bool clean)
{
	/* flock() drops the shared lock before it takes the exclusive one: another slot may take
	 * the list in between. */
	if (p->fd >= 0 && clean && flock(p->fd, LOCK_EX | LOCK_NB) == 0 &&
	    state_is_there(p->fd, p->path)) {
		remove_all(p->fd);
		unlink(p->path);
	}
	close_at(&p->fd);
	free(p->path);
	*p = CACHE_POINTS_NONE;
}
