/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/cache_layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

static bool
is_layer(const char *name)
{
	return strlen(name) == CACHE_LAYER_NAME && strspn(name, "0123456789") == CACHE_LAYER_NAME;
}

static int
newest_first(const void *a, const void *b)
{
	return strcmp(b, a);
}

int
cache_read_names(int project, struct cache_names *ret)
{
	cleanup(closedir_at) DIR *d = cache_read_dir(project);
	struct dirent *ent;

	ret->n = 0;
	if (d == NULL)
		return -1;
	while (errno = 0, ret->n < CACHE_LAYERS_MAX && (ent = readdir(d)) != NULL)
		if (is_layer(ent->d_name))
			memcpy(ret->v[ret->n++], ent->d_name, sizeof(ret->v[0]));
	if (errno != 0)
		return -1;
	if (ret->n > 1)
		qsort(ret->v, ret->n, sizeof(ret->v[0]), newest_first);
	return 0;
}

int
cache_open_trash(int project)
{
	if (mkdirat(project, CACHE_TRASH, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(project, CACHE_TRASH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool
cache_is_named(int project, const struct cache_layer *l)
{
	struct stat named, locked;

	return fstatat(project, l->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	    fstat(l->fd, &locked) == 0 && named.st_dev == locked.st_dev &&
	    named.st_ino == locked.st_ino;
}

int
cache_lock(int project, const char *name, int how, struct cache_layer *ret)
{
	struct cache_layer l = { .fd = openat(project, name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };

	if (l.fd < 0)
		return -1;
	snprintf(l.name, sizeof(l.name), "%s", name);
	if (flock(l.fd, how | LOCK_NB) < 0 || !cache_is_named(project, &l)) {
		close_at(&l.fd);
		return -1;
	}
	*ret = l;
	return 0;
}

/* ---- removing ---- */

/* Discard unused layers: those that were being made when their host was killed and, if `all` is
 * set, all others. *ret_used: a layer was in use. Returns 0, or -1 with errno. */
static int
discard_layers(int project, int trash, bool all, bool *ret_used)
{
	cleanup(closedir_at) DIR *d = cache_read_dir(project);
	struct dirent *ent;

	*ret_used = false;
	if (d == NULL)
		return -1;
	while (errno = 0, (ent = readdir(d)) != NULL) {
		struct cache_layer l = { .fd = -1 };

		if (!(all && is_layer(ent->d_name)) &&
		    strncmp(ent->d_name, CACHE_NEW, strlen(CACHE_NEW)) != 0)
			continue;
		l.fd =
		    openat(project, ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (l.fd >= 0 && flock(l.fd, LOCK_EX | LOCK_NB) == 0) {
			if (cache_tree_discard(project, ent->d_name, trash) < 0)
				*ret_used = true;
		} else {
			*ret_used = true;
		}
		close_at(&l.fd);
	}
	return errno != 0 ? -1 : 0;
}

/* ---- measuring ---- */

bool
cache_is_due(int project, const char *what)
{
	cleanup_close int fd = -1;
	struct stat st;

	if (fstatat(project, what, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    time(NULL) - st.st_mtime < CACHE_LOOK_SECS && time(NULL) >= st.st_mtime)
		return false;
	fd = openat(project, what, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && futimens(fd, NULL) == 0;
}

static int
measure_layer(int project, const char *name, struct cache_size *ret)
{
	char path[CACHE_LAYER_NAME + sizeof("/u")];
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "%s/u", name);
	fd = openat(project, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -1 : cache_tree_measure(fd, ret);
}

static void
mark_over(int project, const char *name)
{
	char path[CACHE_LAYER_NAME + sizeof("/" CACHE_OVER)];
	int fd;

	snprintf(path, sizeof(path), "%s/" CACHE_OVER, name);
	fd = openat(project, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	close_at(&fd);
}

void
cache_hold_to_quota(int project, int trash)
{
	struct cache_names names;
	uint64_t total = 0;
	bool used;

	discard_layers(project, trash, false, &used);
	if (cache_read_names(project, &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		struct cache_size size;

		if (measure_layer(project, names.v[i], &size) < 0)
			continue;
		total += size.bytes;
		if (size.beyond || total > CACHE_QUOTA_BYTES)
			mark_over(project, names.v[i]);
	}
}

int
cache_measure(int project, struct cache_usage *ret)
{
	struct cache_names names;

	*ret = (struct cache_usage){ 0 };
	if (cache_read_names(project, &names) < 0)
		return -1;
	for (size_t i = 0; i < names.n; i++) {
		struct cache_layer l = { .fd = -1 };
		struct cache_size size = { 0 };

		if (measure_layer(project, names.v[i], &size) < 0 && errno == ENOENT)
			continue;
		ret->layers++;
		ret->size.bytes += size.bytes;
		ret->size.entries += size.entries;
		ret->size.beyond |= size.beyond;
		if (cache_lock(project, names.v[i], LOCK_EX, &l) < 0)
			ret->in_use |= errno == EWOULDBLOCK;
		close_at(&l.fd);
	}
	return 0;
}

/* ---- projects ---- */

/* Remove what is left of a project without layers. A slot that has it open keeps it, even if it
 * has no layer yet. Returns 1 if it is gone, 0 if not. */
static int
remove_rest(int caches, const char *name, int project, uint64_t deadline)
{
	cleanup_close int trash = -1;

	if (flock(project, LOCK_EX | LOCK_NB) < 0)
		return 0;
	/* A slot that has ended since may have put something there. */
	trash = openat(project, CACHE_TRASH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (trash >= 0 && cache_tree_empty(trash, deadline) <= 0)
		return 0;
	unlinkat(project, CACHE_MEASURED, 0);
	unlinkat(project, CACHE_SWEPT, 0);
	unlinkat(project, CACHE_ABOUT, 0);
	unlinkat(project, CACHE_TRASH, AT_REMOVEDIR);
	return unlinkat(caches, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 1 : 0;
}

int
cache_remove_project(int caches, const char *name, uint64_t deadline)
{
	cleanup_close int project =
	    openat(caches, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int trash = -1;
	struct cache_names names;
	bool used;
	int r;

	if (project < 0)
		return errno == ENOENT ? 1 : -1;
	/* Making the trash again would interfere with another process that is removing the
	 * project now. */
	if (cache_read_names(project, &names) == 0 && names.n == 0)
		return remove_rest(caches, name, project, deadline);
	trash = cache_open_trash(project);
	if (trash < 0 || discard_layers(project, trash, true, &used) < 0)
		return -1;
	r = cache_tree_empty(trash, deadline);
	if (r <= 0 || used)
		return r < 0 ? -1 : 0;
	return remove_rest(caches, name, project, deadline);
}

void
cache_expire(int project)
{
	const uint64_t deadline = monotonic_ns() + CACHE_SWEEP_MS * UINT64_C(1000000);
	cleanup_close int caches = openat(project, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = caches < 0 ? NULL : cache_read_dir(caches);
	const time_t now = time(NULL);
	struct dirent *ent;
	struct stat st;

	while (d != NULL && monotonic_ns() < deadline && (ent = readdir(d)) != NULL) {
		if (ent->d_name[0] == '.' ||
		    fstatat(caches, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			continue;
		if (now > st.st_mtime && (uint64_t)(now - st.st_mtime) > CACHE_AGE_SECS)
			cache_remove_project(caches, ent->d_name, deadline);
	}
}
