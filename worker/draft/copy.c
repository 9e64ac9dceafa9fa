/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"
#include "worker/files/replace.h"
#include "worker/pause.h"

static int copy_at(struct copy *c, int from_dir, const char *from, int to_dir, const char *to,
    unsigned depth);

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int
put_times(int fd, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	return futimens(fd, times);
}

static int
copy_file(struct copy *c, int from, const struct stat *st, int to_dir, const char *to)
{
	cleanup_close int in = resolve_reopen(c->res, from, O_RDONLY | O_NOCTTY | O_NONBLOCK);
	cleanup_close int out = -1;
	struct stat now;

	if (in < 0)
		return -1;
	out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -1;
	PAUSE_POINT(PAUSE_SWAP_COPYING);
	if (file_copy(out, in, (size_t)st->st_size) < 0) {
		/* It became shorter. */
		c->changed |= errno == EIO && fstat(in, &now) == 0 && now.st_size < st->st_size;
		return -1;
	}
	if (fstat(in, &now) < 0)
		return -1;
	c->changed |= now.st_size != st->st_size || !same_time(&now.st_mtim, &st->st_mtim);
	return file_dress(out, from, st) < 0 ? -1 : put_times(out, st);
}

static int
copy_link(int from, const struct stat *st, int to_dir, const char *to)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	char target[PATH_LEN_MAX + 1];
	ssize_t n = readlinkat(from, "", target, sizeof(target));

	if (n < 0)
		return -1;
	if ((size_t)n == sizeof(target)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	target[n] = '\0';
	if (symlinkat(target, to_dir, to) < 0)
		return -1;
	return utimensat(to_dir, to, times, AT_SYMLINK_NOFOLLOW);
}

static DIR *
list(const struct copy *c, int dir)
{
	cleanup_close int fd = resolve_reopen(c->res, dir, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d != NULL)
		fd = -1;
	return d;
}

static bool
is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* to_dir -1: only measures. */
static int
copy_directory(struct copy *c, int from, const struct stat *st, int to_dir, const char *to,
    unsigned depth)
{
	cleanup(closedir_at) DIR *d = list(c, from);
	cleanup_close int out = -1;
	struct dirent *e;

	if (d == NULL)
		return -1;
	if (depth == SWAP_COPY_DEPTH_MAX) {
		errno = EFBIG;
		return -1;
	}
	if (to_dir >= 0) {
		if (mkdirat(to_dir, to, 0700) < 0)
			return -1;
		out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (out < 0)
			return -1;
		PAUSE_POINT(PAUSE_SWAP_COPYING);
	}
	while (errno = 0, (e = readdir(d)) != NULL) {
		if (is_dot(e->d_name))
			continue;
		if (++c->entries > SWAP_COPY_ENTRIES_MAX) {
			errno = EFBIG;
			return -1;
		}
		if (copy_at(c, dirfd(d), e->d_name, out, e->d_name, depth + 1) < 0)
			return -1;
	}
	if (errno != 0)
		return -1;
	if (out < 0)
		return 0;
	return file_dress(out, from, st) < 0 ? -1 : put_times(out, st);
}

static int
copy_at(struct copy *c, int from_dir, const char *from, int to_dir, const char *to, unsigned depth)
{
	cleanup_close int fd = openat(from_dir, from, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (depth > 0 && S_ISREG(st.st_mode)) {
		c->bytes += (uint64_t)st.st_size;
		if (c->bytes > SWAP_COPY_BYTES_MAX) {
			errno = EFBIG;
			return -1;
		}
	}
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return to_dir < 0 ? 0 : copy_file(c, fd, &st, to_dir, to);
	case S_IFLNK:
		return to_dir < 0 ? 0 : copy_link(fd, &st, to_dir, to);
	case S_IFDIR:
		return copy_directory(c, fd, &st, to_dir, to, depth);
	default:
		errno = EOPNOTSUPP;
		return -1;
	}
}

int
copy_name(struct copy *c, int from_dir, const char *from, int to_dir, const char *to)
{
	return copy_at(c, from_dir, from, to_dir, to, 0);
}

int
copy_measure(struct copy *c, int from_dir, const char *from)
{
	return copy_at(c, from_dir, from, -1, NULL, 0);
}
