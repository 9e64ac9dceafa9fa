/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the user how much commands wrote to caches, and removes it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_layers.h"
#include "host/caches/cache_project.h"
#include "host/machine/home.h"
#include "host/machine/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* Open the directory of all projects. The caller owns *ret and the canonical path in *ret_path.
 * Returns 1; 0 if there is none; -1 with *err set. */
static int
open_all(char **ret_path, int *ret, struct koda_error *err)
{
	cleanup_free char *home = home_find(), *path = NULL, *real = NULL;
	cleanup_close int fd = -1;

	if (home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "caches");
	path = state_all_caches_path(home);
	real = path == NULL ? NULL : realpath(path, NULL);
	if (real == NULL)
		return 0;
	fd = state_open_directory(real, err);
	if (fd < 0)
		return -1;
	*ret = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret < 0)
		return err_set(err, KODA_IO, errno, "read '%s'", real);
	*ret_path = take_ptr(&real);
	return 1;
}

/* The host wrote this file. If it is malformed, the root is empty. */
static void
read_about(int project, char *ret, size_t size)
{
	cleanup_close int fd =
	    openat(project, CACHE_ABOUT, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n =
	    fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? 0 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
}

static int
visit_one(const char *all, int dir, const char *name, koda_cached_fn *fn, void *data)
{
	cleanup_close int project =
	    openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char root[PATH_LEN_MAX + 1], path[2 * PATH_LEN_MAX];
	struct koda_cached one = { .root = root, .path = path };
	struct cache_usage usage;
	struct stat st;

	if (project < 0 || fstat(project, &st) < 0 || cache_measure(project, &usage) < 0)
		return 0; /* it was just removed, or is not ours */
	read_about(project, root, sizeof(root));
	snprintf(path, sizeof(path), "%s/%s", all, name);
	one.bytes = usage.size.bytes;
	one.names = usage.size.entries;
	one.more = usage.size.beyond;
	one.in_use = usage.in_use;
	one.layers = usage.layers;
	one.used = (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9;
	return fn(data, &one);
}

int
koda_caches_visit(koda_cached_fn *fn, void *data, struct koda_error *err)
{
	cleanup(closedir_at) DIR *d = NULL;
	cleanup_free char *all = NULL;
	cleanup_close int dir = -1;
	struct dirent *ent;
	int r = open_all(&all, &dir, err);

	if (r <= 0)
		return r;
	d = cache_read_dir(dir);
	if (d == NULL)
		return err_set(err, KODA_IO, errno, "read '%s'", all);
	r = 0;
	while (r == 0 && (ent = readdir(d)) != NULL)
		if (ent->d_name[0] != '.')
			r = visit_one(all, dir, ent->d_name, fn, data);
	return r;
}

struct clearing {
	const char *path; /* of the root to clear (cache_project_is_of()); NULL: all */
	int dir;
	size_t in_use;
	int errnum;
};

static int
clear_one(void *data, const struct koda_cached *one)
{
	struct clearing *c = data;
	int r;

	if (c->path != NULL && !cache_project_is_of(one->path, c->path))
		return 0;
	r = cache_remove_project(c->dir, strrchr(one->path, '/') + 1, CACHE_NO_DEADLINE);
	if (r == 0)
		c->in_use++;
	if (r < 0)
		c->errnum = errno;
	return 0;
}

int
koda_caches_clear(const char *root, size_t *ret_in_use, struct koda_error *err)
{
	cleanup_free char *all = NULL, *real = NULL, *home = home_find(), *path = NULL;
	struct clearing c = { 0 };
	cleanup_close int dir = -1;
	int r = open_all(&all, &dir, err);

	if (ret_in_use != NULL)
		*ret_in_use = 0;
	if (r <= 0)
		return r;
	if (root != NULL) {
		/* A root that no longer exists may have left something. */
		real = realpath(root, NULL);
		if (home == NULL || (real == NULL && root[0] != '/'))
			return err_set(err, KODA_IO, errno, "the root '%s'", root);
		path = state_caches_path(real != NULL ? real : root, home);
		if (path == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "caches");
		c.path = path;
	}
	c.dir = dir;
	r = koda_caches_visit(clear_one, &c, err);
	if (r == 0 && c.errnum != 0)
		r = err_set(err, KODA_IO, c.errnum, "remove what commands wrote to caches in '%s'",
		    all);
	if (ret_in_use != NULL)
		*ret_in_use = c.in_use;
	return r;
}
