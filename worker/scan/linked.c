/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/linked.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "worker/scan/quarantine.h"
#include "worker/scan/scan_known.h"

/* Limit on entries in one place, many times what settings, hooks and plugins have. A larger place
 * goes to quarantine. */
#define ENTRIES_MAX 65536
#define DEPTH_MAX   32
/* Limit for one file. The largest usual one is a package manager's release, with a few
 * megabytes. */
#define BYTES_MAX (64u << 20)
/* How often a file is copied again because another process replaced it meanwhile. */
#define TRIES 8
static bool
is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- visiting each file of a place ---- */

struct each {
	linked_fn *fn;
	void *data;
	unsigned left; /* entries that may still be read */
};

static int
each_at(struct each *e, int dir_fd, const char *name, unsigned depth)
{
	cleanup(closedir_at) DIR *d = NULL;
	cleanup_close int fd = -1;
	struct dirent *entry;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (S_ISREG(st.st_mode) && st.st_nlink > 1)
		return e->fn(e->data, dir_fd, name, &st);
	if (!S_ISDIR(st.st_mode))
		return 0;
	errno = EFBIG;
	if (depth > DEPTH_MAX)
		return -1;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL)
		return errno == ENOENT ? 0 : -1;
	fd = -1;
	while (errno = 0, (entry = readdir(d)) != NULL) {
		if (is_dot(entry->d_name))
			continue;
		errno = EFBIG;
		if (e->left == 0)
			return -1;
		e->left--;
		if (each_at(e, dirfd(d), entry->d_name, depth + 1) < 0)
			return -1;
	}
	return errno == 0 ? 0 : -1;
}

int
linked_each(int dir_fd, const char *name, unsigned *entries, linked_fn *fn, void *data)
{
	struct each e = { fn, data, *entries };
	const int r = each_at(&e, dir_fd, name, 0);

	*entries = e.left;
	return r;
}

static int
note_any(void *data, int dir_fd, const char *name, const struct stat *st)
{
	(void)dir_fd;
	(void)name;
	(void)st;
	*(bool *)data = true;
	return 0;
}

int
linked_any(int dir_fd, const char *name)
{
	bool any = false;
	struct each e = { note_any, &any, ENTRIES_MAX };

	return each_at(&e, dir_fd, name, 0) < 0 ? -1 : any;
}

/* ---- giving a file its own inode ---- */

static int
copy_bytes(int from, int to, off_t size)
{
	char buf[16 << 10];

	/* What is appended meanwhile is not read. */
	while (size > 0) {
		ssize_t n = read(from, buf, size < (off_t)sizeof(buf) ? (size_t)size : sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		size -= n;
		if (write_all(to, buf, (size_t)n) < 0)
			return -1;
	}
	return 0;
}

/* Returns 0; 1 if another file has taken the name, and keeps it; -1 with errno. */
static int
put_in_place(int dir_fd, const char *temp, const char *name, const struct stat *seen)
{
	struct stat old;

	if (renameat2(dir_fd, temp, dir_fd, name, RENAME_EXCHANGE) < 0) {
		if (errno != EINVAL)
			return errno == ENOENT ? 1 : -1;
		/* This file system cannot exchange names: a file that a command puts there in
		 * between is lost. */
		return renameat(dir_fd, temp, dir_fd, name);
	}
	if (fstatat(dir_fd, temp, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (old.st_dev != seen->st_dev || old.st_ino != seen->st_ino))
		return renameat2(dir_fd, temp, dir_fd, name, RENAME_EXCHANGE) < 0 ? -1 : 1;
	return 0;
}

static int
copy_once(struct quarantine *q, int dir_fd, const char *name)
{
	cleanup_close int from =
	    openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	cleanup_close int to = -1;
	char temp[TEMP_NAME_SIZE + 8];
	struct stat st;
	int r, saved;

	if (from < 0)
		return errno == ENOENT ? 0 : errno == ELOOP ? 1 : -1;
	if (fstat(from, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return 1;
	if (st.st_size > (off_t)BYTES_MAX) {
		errno = EFBIG;
		return -1;
	}
	to = quarantine_temp_file(q, dir_fd, temp, sizeof(temp));
	if (to < 0)
		return -1;
	r = copy_bytes(from, to, st.st_size);
	if (r == 0)
		r = fchmod(to, st.st_mode & 0777);
	if (r == 0)
		r = put_in_place(dir_fd, temp, name, &st);
	saved = errno;
	unlinkat(dir_fd, temp, 0);
	errno = saved;
	return r;
}

static int
own(void *data, int dir_fd, const char *name, const struct stat *st)
{
	(void)st;
	for (unsigned i = 0; i < TRIES; i++) {
		struct stat now;
		int r = copy_once(data, dir_fd, name);

		if (r < 0)
			return -1;
		if (r == 0)
			return 0;
		/* The file that is there now may have only one name. */
		if (fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(now.st_mode) ||
		    now.st_nlink == 1)
			return 0;
	}
	errno = EBUSY;
	return -1;
}

int
linked_own(struct scan *sc, struct plant *p)
{
	struct each e = { own, scan_quarantine(sc), ENTRIES_MAX };

	if (each_at(&e, p->dir_fd, p->name, 0) < 0)
		return -1;
	return fstatat(p->dir_fd, p->name, &p->st, AT_SYMLINK_NOFOLLOW);
}
