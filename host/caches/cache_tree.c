/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/cache_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define OPAQUE      "user.overlay.opaque"
#define LOOK_EVERY  64 /* names, between two readings of the clock */
#define DISCARD_MAX 8  /* new names that are tried */

static bool
is_self(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool
is_over(uint64_t deadline, unsigned *n)
{
	return deadline != CACHE_NO_DEADLINE && ++*n % LOOK_EVERY == 0 &&
	    monotonic_ns() >= deadline;
}

/* Set the mode of a directory: a command may have removed its own permission to read it. */
static int
set_mode(int dir, const char *name, mode_t mode)
{
	cleanup_close int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char link[32];

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return chmod(link, mode);
}

static int
open_dir(int dir, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags);

	if (fd < 0 && errno == EACCES && set_mode(dir, name, 0700) == 0)
		fd = openat(dir, name, flags);
	return fd;
}

DIR *
cache_read_dir(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (d == NULL)
		close_at(&copy);
	return d;
}

/* ---- layers without content ---- */

/* The value is "y". "x" of newer kernels says something about files in the directory, and not
 * that it is opaque. */
static bool
is_opaque(int fd)
{
	char value = 0;

	return fgetxattr(fd, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* *left: how many more directories are allowed. own: a name that the host cannot have, or NULL. */
static bool
is_bare(int dir, const char *own, unsigned *left)
{
	cleanup(closedir_at) DIR *d = cache_read_dir(dir);
	const struct dirent *ent;

	if (d == NULL)
		return false;
	while (errno = 0, (ent = readdir(d)) != NULL) {
		cleanup_close int below = -1;

		if (is_self(ent->d_name))
			continue;
		if (*left == 0)
			return false;
		(*left)--;
		below = openat(dir, ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0 || !is_bare(below, NULL, left))
			return false;
		/* An opaque directory hides what the host has there. */
		if (is_opaque(below) && (own == NULL || strcmp(ent->d_name, own) != 0))
			return false;
	}
	return errno == 0;
}

bool
cache_tree_is_bare(int dir, const char *own)
{
	unsigned left = CACHE_BARE_MAX;

	return is_bare(dir, own, &left);
}

/* ---- removing ---- */

int
cache_tree_discard(int dir, const char *name, int trash)
{
	for (int i = 0; i < DISCARD_MAX; i++) {
		char as[2 * sizeof(uint64_t) + 1];
		uint64_t number;

		randombytes_buf(&number, sizeof(number));
		snprintf(as, sizeof(as), "%016llx", (unsigned long long)number);
		if (renameat2(dir, name, trash, as, RENAME_NOREPLACE) == 0 || errno == ENOENT)
			return 0;
		/* Moving a directory needs write permission for it: its ".." changes. */
		if (errno == EACCES ? set_mode(dir, name, 0700) < 0 : errno != EEXIST)
			return -1;
	}
	return -1;
}

/* Remove a file, a link, or an empty directory. */
static int
remove_one(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	return unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

/* Empty and remove a directory in the trash. Directories in it that are not empty are moved up
 * into the trash, so this never goes deeper. Returns 1, 0 or -1, like cache_tree_empty(). */
static int
flatten(int trash, const char *name, uint64_t deadline, unsigned *n)
{
	cleanup_close int fd = open_dir(trash, name);
	cleanup(closedir_at) DIR *d = NULL;
	struct dirent *ent;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 1 : -1;
	if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU && fchmod(fd, 0700) < 0)
		return -1;
	d = cache_read_dir(fd);
	if (d == NULL)
		return -1;
	while (errno = 0, (ent = readdir(d)) != NULL) {
		if (is_self(ent->d_name))
			continue;
		if (remove_one(fd, ent->d_name) < 0 &&
		    ((errno != ENOTEMPTY && errno != EEXIST) ||
			cache_tree_discard(fd, ent->d_name, trash) < 0))
			return -1;
		if (is_over(deadline, n))
			return 0;
	}
	if (errno != 0)
		return -1;
	return unlinkat(trash, name, AT_REMOVEDIR) == 0 || errno == ENOTEMPTY || errno == ENOENT
	    ? 1
	    : -1;
}

int
cache_tree_empty(int trash, uint64_t deadline)
{
	unsigned n = 0;

	for (;;) {
		cleanup(closedir_at) DIR *d = cache_read_dir(trash);
		struct dirent *ent;
		bool any = false;

		if (d == NULL)
			return -1;
		while (errno = 0, (ent = readdir(d)) != NULL) {
			int r = 1;

			if (is_self(ent->d_name))
				continue;
			any = true;
			if (remove_one(trash, ent->d_name) < 0)
				r = errno == ENOTEMPTY || errno == EEXIST
				    ? flatten(trash, ent->d_name, deadline, &n)
				    : -1;
			if (r <= 0)
				return r;
			if (is_over(deadline, &n))
				return 0;
		}
		if (errno != 0)
			return -1;
		if (!any)
			return 1;
	}
}

/* ---- measuring ---- */

int
cache_tree_measure(int dir, struct cache_size *ret)
{
	DIR *stack[CACHE_DEPTH_MAX];
	size_t n = 0;
	int r = 0;

	*ret = (struct cache_size){ 0 };
	stack[n] = cache_read_dir(dir);
	if (stack[n++] == NULL)
		return -1;
	while (n > 0 && !ret->beyond) {
		struct dirent *ent = readdir(stack[n - 1]);
		struct stat st;
		int fd;

		if (ent == NULL) {
			closedir(stack[--n]);
			continue;
		}
		if (is_self(ent->d_name) ||
		    fstatat(dirfd(stack[n - 1]), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		ret->bytes += (uint64_t)st.st_blocks * 512 /
		    (st.st_nlink > 1 && !S_ISDIR(st.st_mode) ? (uint64_t)st.st_nlink : 1);
		ret->beyond = ++ret->entries > CACHE_ENTRIES_MAX;
		if (!S_ISDIR(st.st_mode))
			continue;
		if (n == CACHE_DEPTH_MAX) {
			ret->beyond = true;
			continue;
		}
		fd = openat(dirfd(stack[n - 1]), ent->d_name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		stack[n] = fd < 0 ? NULL : fdopendir(fd);
		if (stack[n] != NULL) {
			n++;
			continue;
		}
		close_at(&fd);
		ret->beyond = fd >= 0 || errno != ENOENT;
	}
	while (n > 0)
		closedir(stack[--n]);
	return r;
}

/* ---- merging ---- */

struct merge {
	int trash;
	uint64_t deadline;
	unsigned n;
};

static int merge_directory(struct merge *m, int newer, int older, unsigned depth);

/* Merge two directories of the same name that show their names together. Returns 1, 0, -1, like
 * cache_tree_merge(); 2: they cannot be merged. */
static int
merge_both(struct merge *m, int newer, int older, const char *name, const struct stat *st,
    unsigned depth)
{
	cleanup_close int from = -1, to = -1;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	int r;

	if (depth + 1 >= CACHE_DEPTH_MAX)
		return 2;
	from = open_dir(newer, name);
	if (from < 0)
		return -1;
	if (is_opaque(from))
		return 2;
	to = open_dir(older, name);
	if (to < 0 || fchmod(from, 0700) < 0 || fchmod(to, 0700) < 0)
		return -1;
	r = merge_directory(m, from, to, depth + 1);
	if (r <= 0)
		return r;
	if (unlinkat(newer, name, AT_REMOVEDIR) < 0 || fchmod(to, st->st_mode & 07777) < 0)
		return -1;
	futimens(to, times);
	return 1;
}

/* Mark a directory as opaque: it hid what is below it, and has to do so in the lower layer as
 * well. */
static int
make_opaque(int dir, const char *name, mode_t mode)
{
	cleanup_close int fd = open_dir(dir, name);

	if (fd < 0)
		return -1;
	/* Setting the attribute needs write permission, which the owner can give itself. */
	if (fchmod(fd, 0700) < 0 || fsetxattr(fd, OPAQUE, "y", 1, 0) < 0 ||
	    fchmod(fd, mode & 07777) < 0)
		return -1;
	return 0;
}

static int
merge_name(struct merge *m, int newer, int older, const char *name, unsigned depth)
{
	struct stat above, below;
	bool there;

	if (fstatat(newer, name, &above, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -1;
	there = fstatat(older, name, &below, AT_SYMLINK_NOFOLLOW) == 0;
	if (!there && errno != ENOENT)
		return -1;
	if (there && S_ISDIR(above.st_mode)) {
		int r =
		    S_ISDIR(below.st_mode) ? merge_both(m, newer, older, name, &above, depth) : 2;

		if (r < 2)
			return r;
		if (make_opaque(newer, name, above.st_mode) < 0)
			return -1;
	}
	/* Between the two steps the newer one is seen as before. */
	if (there && (S_ISDIR(above.st_mode) || S_ISDIR(below.st_mode)) &&
	    cache_tree_discard(older, name, m->trash) < 0)
		return -1;
	if (renameat(newer, name, older, name) == 0)
		return 1;
	if (errno != EACCES || !S_ISDIR(above.st_mode) || set_mode(newer, name, 0700) < 0 ||
	    renameat(newer, name, older, name) < 0)
		return -1;
	return set_mode(older, name, above.st_mode & 07777) < 0 ? -1 : 1;
}

static int
merge_directory(struct merge *m, int newer, int older, unsigned depth)
{
	bool any = true;

	/* A name that is renamed while the directory is read may be returned twice or not at
	 * all. */
	while (any) {
		cleanup(closedir_at) DIR *d = cache_read_dir(newer);
		struct dirent *ent;

		if (d == NULL)
			return -1;
		any = false;
		while (errno = 0, (ent = readdir(d)) != NULL) {
			int r;

			if (is_self(ent->d_name))
				continue;
			any = true;
			r = merge_name(m, newer, older, ent->d_name, depth);
			if (r <= 0)
				return r;
			if (is_over(m->deadline, &m->n))
				return 0;
		}
		if (errno != 0)
			return -1;
	}
	return 1;
}

int
cache_tree_merge(int newer, int older, int trash, uint64_t deadline)
{
	struct merge m = { .trash = trash, .deadline = deadline };

	return merge_directory(&m, newer, older, 0);
}
