/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/cache_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "host/caches/cache_layers.h"
#include "host/caches/cache_project.h"
#include "host/caches/cache_tree.h"
#include "host/caches/caches.h"
#include "host/machine/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define PROBE_XATTR "user.koda" /* to test whether a directory in a layer can be marked opaque */
#define NEW_TRIES   16
#define OPEN_TRIES  10
#define HOLD_MS     100 /* wait this long for a process that removes the project */
/* Time for removing a few directories, which takes so long only on a busy disk. */
#define BARE_MS 1000
/* At a project's first start, time for removing the layers of earlier projects at its path. What
 * is left expires later. */
#define OTHERS_MS 50
#define MS        UINT64_C(1000000)

static void
layer_close(struct cache_layer *l)
{
	close_at(&l->fd);
	l->fd = -1;
}

/* ---- opening ---- */

/* Record the root once, so that `caches list` can show whose project it is. Returns true if it
 * was not recorded before. */
static bool
write_about(int fd, const char *root)
{
	cleanup_close int about =
	    openat(fd, CACHE_ABOUT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (about >= 0 && write(about, root, strlen(root)) < 0)
		unlinkat(fd, CACHE_ABOUT, 0);
	return about >= 0;
}

/* Lock the project, so that no process removes it while its directory is open here. A process
 * that has just removed it, or is about to, holds the lock for some microseconds. Returns 0, or
 * -1 with errno. */
static int
hold_project(const struct cache_store *s)
{
	const struct timespec tick = { .tv_nsec = 1000000 };
	struct stat held, named;

	for (int ms = 0; flock(s->fd, LOCK_SH | LOCK_NB) < 0; ms++) {
		if (errno != EWOULDBLOCK || ms == HOLD_MS)
			return -1;
		nanosleep(&tick, NULL);
	}
	if (fstat(s->fd, &held) < 0 || lstat(s->path, &named) < 0)
		return -1;
	errno = ENOENT;
	return held.st_dev == named.st_dev && held.st_ino == named.st_ino ? 0 : -1;
}

static int
open_project(const char *root, const char *home, struct cache_store *s, struct koda_error *err)
{
	cleanup_free char *path = cache_project_path(root, home, err);
	cleanup_close int dir = -1, caches = -1;
	struct stat st;

	if (path == NULL)
		return -1;
	if (state_make(path) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '%s'", path);
	s->path = realpath(path, NULL);
	dir = s->path == NULL ? -1 : state_open_directory(s->path, err);
	if (dir < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "open '%s'", path);
	if (fstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077) != 0)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%s' must be a directory of this user with mode 0700", path);
	s->fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "open '%s'", path);
	if (hold_project(s) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "lock '%s'", path);
	s->trash = cache_open_trash(s->fd);
	if (s->trash < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make '%s/trash'", path);
	if (write_about(s->fd, root) &&
	    (caches = openat(s->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
		cache_project_remove_others(caches, s->path, monotonic_ns() + OTHERS_MS * MS);
	return 0;
}

/* Make a new layer as s->upper. It gets its number only after it is locked. */
static int
new_layer(struct cache_store *s, unsigned long number, struct koda_error *err)
{
	struct cache_layer l = { .fd = -1 };
	char name[64];

	snprintf(name, sizeof(name), CACHE_NEW "%08x%08x", randombytes_random(),
	    randombytes_random());
	if (mkdirat(s->fd, name, 0700) < 0 ||
	    (l.fd = openat(s->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
	    flock(l.fd, LOCK_EX | LOCK_NB) < 0 || mkdirat(l.fd, "u", 0700) < 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "make a layer in '%s'", s->path);
		goto failed;
	}
	if (fsetxattr(l.fd, PROBE_XATTR, "1", 1, 0) < 0) {
		err_set(err, KODA_UNSUPPORTED, errno,
		    "the file system of '%s' has no extended attributes for users", s->path);
		goto failed;
	}
	for (int i = 0; i < NEW_TRIES; i++, number++) {
		snprintf(l.name, sizeof(l.name), "%0*lu", CACHE_LAYER_NAME, number);
		if (renameat2(s->fd, name, s->fd, l.name, RENAME_NOREPLACE) == 0) {
			s->upper = l;
			return 0;
		}
		if (errno != EEXIST)
			break;
	}
	err_set(err, KODA_UNSUPPORTED, errno, "name a layer in '%s'", s->path);
failed:
	layer_close(&l);
	cache_tree_discard(s->fd, name, s->trash);
	return -1;
}

/* Replace the work directory: what overlayfs left in it the last time is in its way. It is not
 * removed at once: ext4 does not use an inode again for minutes, and skips each such inode
 * whenever it makes a new one, so a slot that removed as much as it makes would slow down the
 * next ones. */
static int
fresh_work(struct cache_store *s, struct koda_error *err)
{
	if (cache_tree_discard(s->upper.fd, "w", s->trash) < 0 ||
	    mkdirat(s->upper.fd, "w", 0700) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "prepare a layer in '%s'", s->path);
	return 0;
}

/* Locked layers, the newest first. */
struct layers {
	struct cache_layer v[CACHE_LAYERS_MAX];
	size_t n;
};

static void
layers_drop(struct layers *l, size_t i)
{
	layer_close(&l->v[i]);
	memmove(&l->v[i], &l->v[i + 1], (--l->n - i) * sizeof(l->v[0]));
}

static void
layers_done(struct layers *l)
{
	while (l->n > 0)
		layer_close(&l->v[--l->n]);
}

/* Change the lock of a layer. The kernel releases a lock before it takes another one on the same
 * file, so another process may have been faster. Returns true if the layer is locked and still
 * has its name. */
static bool
lock_again(const struct cache_store *s, const struct cache_layer *l, int how)
{
	return flock(l->fd, how | LOCK_NB) == 0 && cache_is_named(s->fd, l);
}

/* Merge a layer, which this slot has locked exclusively, into the one below it, if no other slot
 * reads that. Returns true if the upper layer is gone then. */
static bool
merge_into(const struct cache_store *s, const struct cache_layer *upper,
    const struct cache_layer *under, uint64_t deadline)
{
	cleanup_close int newer =
	    openat(upper->fd, "u", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int older =
	    openat(under->fd, "u", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return newer >= 0 && older >= 0 && lock_again(s, under, LOCK_EX) &&
	    cache_tree_merge(newer, older, s->trash, deadline) == 1 &&
	    cache_tree_discard(s->fd, upper->name, s->trash) == 0;
}

/* Merge the layer that is written into the one below it, and that into the next one. */
static void
merge_upper(struct cache_store *s, struct layers *all, uint64_t deadline)
{
	while (all->n > 0) {
		if (!merge_into(s, &s->upper, &all->v[0], deadline)) {
			if (!lock_again(s, &all->v[0], LOCK_SH))
				layers_drop(all, 0);
			return;
		}
		layer_close(&s->upper);
		s->upper = all->v[0];
		memmove(all->v, all->v + 1, --all->n * sizeof(all->v[0]));
	}
}

/* If at any time some slot runs, each slot makes a new upper layer. So merge the layers that no
 * slot reads into each other. */
static void
merge_others(struct cache_store *s, struct layers *all, uint64_t deadline)
{
	for (size_t i = 0; i + 1 < all->n && all->n > CACHE_UNDER_MANY;) {
		bool alone = lock_again(s, &all->v[i], LOCK_EX);
		bool merged = alone && merge_into(s, &all->v[i], &all->v[i + 1], deadline);

		if (!lock_again(s, &all->v[i + 1], LOCK_SH))
			layers_drop(all, i + 1);
		if (merged || !lock_again(s, &all->v[i], LOCK_SH))
			layers_drop(all, i);
		else
			i++;
	}
}

/* Take the newest layers and the oldest ones, which contain most. No slot reads the others then,
 * so they can be merged. */
static void
choose(struct cache_store *s, struct layers *all)
{
	while (all->n > CACHE_UNDER_MAX)
		layers_drop(all, CACHE_UNDER_MAX / 2);
	memcpy(s->under, all->v, all->n * sizeof(s->under[0]));
	s->n_under = all->n;
	all->n = 0;
}

static int
take_layers(struct cache_store *s, struct koda_error *err)
{
	cleanup(layers_done) struct layers all = { 0 };
	struct cache_names names;
	unsigned long next = 1;
	uint64_t deadline;

	if (cache_read_names(s->fd, &names) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "read '%s'", s->path);
	if (names.n > 0)
		next = strtoul(names.v[0], NULL, 10) + 1;
	for (size_t i = 0; i < names.n; i++) {
		struct cache_layer l = { .fd = -1 };
		bool top = i == 0;

		if (cache_lock(s->fd, names.v[i], top ? LOCK_EX : LOCK_SH, &l) < 0)
			continue;
		if (faccessat(l.fd, CACHE_OVER, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			/* Marked for removal: a slot removes it if no other slot uses it. */
			if (lock_again(s, &l, LOCK_EX) &&
			    cache_tree_discard(s->fd, l.name, s->trash) == 0)
				unlinkat(s->fd, CACHE_SWEPT, 0);
			layer_close(&l);
		} else if (top) {
			s->upper = l;
		} else {
			all.v[all.n++] = l;
		}
	}
	deadline = monotonic_ns() + CACHE_MERGE_MS * MS;
	if (s->upper.fd >= 0)
		merge_upper(s, &all, deadline);
	merge_others(s, &all, deadline);
	choose(s, &all);
	return s->upper.fd >= 0 ? 0 : new_layer(s, next, err);
}

static int
try_open(const char *root, const char *home, struct cache_store *ret, struct koda_error *err)
{
	struct cache_store s = CACHE_STORE_CLOSED;

	if (open_project(root, home, &s, err) < 0 || take_layers(&s, err) < 0 ||
	    fresh_work(&s, err) < 0) {
		cache_store_abandon(&s);
		return -1;
	}
	futimens(s.fd, NULL); /* the project was used now */
	*ret = s;
	return 0;
}

int
cache_store_open(const char *root, const char *home, struct cache_store *ret,
    struct koda_error *err)
{
	int r = -1;

	/* A process that removes unused layers may come between making a name and locking it. */
	for (int i = 0; r < 0 && i < OPEN_TRIES; i++)
		r = try_open(root, home, ret, err);
	return r;
}

/* ---- closing ---- */

void
cache_store_abandon(struct cache_store *s)
{
	layer_close(&s->upper);
	for (size_t i = 0; i < s->n_under; i++)
		layer_close(&s->under[i]);
	close_at(&s->trash);
	close_at(&s->fd);
	free(s->path);
	*s = CACHE_STORE_CLOSED;
}

/* Returns true if no command wrote anything to the layer. */
static bool
is_bare(const struct cache_layer *l)
{
	cleanup_close int u = openat(l->fd, "u", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return u >= 0 && cache_tree_is_bare(u, CACHES_SPARE_NAME);
}

/* Close and remove a layer without content. The project is removed with its last layer, unless
 * another slot has begun to use it. If several slots end at once, the last one to close finds no
 * layer. */
static void
close_bare(struct cache_store *s)
{
	cleanup_close int caches = openat(s->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int project = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_free char *path = strdup(s->path);
	const uint64_t deadline = monotonic_ns() + BARE_MS * MS;
	struct cache_names names;

	cache_tree_discard(s->fd, s->upper.name, s->trash);
	cache_tree_empty(s->trash, deadline);
	cache_store_abandon(s);
	if (caches >= 0 && project >= 0 && path != NULL && cache_read_names(project, &names) == 0 &&
	    names.n == 0)
		cache_remove_project(caches, strrchr(path, '/') + 1, deadline);
}

void
cache_store_close(struct cache_store *s)
{
	if (s->path == NULL)
		return;
	if (is_bare(&s->upper)) {
		close_bare(s);
		return;
	}
	if (cache_is_due(s->fd, CACHE_MEASURED)) {
		cache_hold_to_quota(s->fd, s->trash);
		cache_expire(s->fd);
	}
	/* What is left is removed when the next slot ends. */
	if (cache_is_due(s->fd, CACHE_SWEPT) &&
	    cache_tree_empty(s->trash, monotonic_ns() + CACHE_SWEEP_MS * MS) == 0)
		unlinkat(s->fd, CACHE_SWEPT, 0);
	cache_store_abandon(s);
}
