/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/machine/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

static int
open_directory(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int
open_mask(const struct draft *d, const struct draft_dir *dir)
{
	char name[sizeof(dir->name) + 2];

	snprintf(name, sizeof(name), "%s/m", dir->name);
	if (mkdirat(d->fd, name, 0700) < 0 && errno != EEXIST)
		return -1;
	return open_directory(d->fd, name);
}

int
draft_mask_clear(const struct draft *d, struct koda_error *err)
{
	for (size_t i = 0; i < d->n_dirs; i++) {
		cleanup_close int fd = open_mask(d, &d->dir[i]);

		if (fd < 0 || cache_tree_empty(fd, CACHE_NO_DEADLINE) < 0)
			return err_set(err, KODA_IO, errno, "prepare draft '%s'", d->id);
	}
	return 0;
}

/* A directory of the mask that is merged with the project's, whose mode it shows. */
static int
enter(int mask, const char *name, const struct stat *st)
{
	int fd;

	if (mkdirat(mask, name, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = open_directory(mask, name);
	if (fd >= 0 && fchmod(fd, (st->st_mode & 07777) | 0700) < 0)
		close_at(&fd);
	return fd;
}

/* Hides the first name on the way that does not exist. Takes over both descriptors. */
static int
hide(int project, int mask, const char *rel)
{
	cleanup_close int in = project, to = mask;
	struct stat st;

	if (fstatat(in, rel, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	for (;;) {
		const size_t len = strcspn(rel, "/");
		char name[NAME_MAX + 1];
		int next;

		if (snprintf(name, sizeof(name), "%.*s", (int)len, rel) >= (int)sizeof(name))
			return 0; /* no such name can exist */
		if (fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno != ENOENT ||
				(mknodat(to, name, S_IFCHR, 0) < 0 && errno != EEXIST)
			    ? -1
			    : 0;
		if (rel[len] == '\0' || !S_ISDIR(st.st_mode))
			return 0;
		next = openat(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -1;
		close(in);
		in = next;
		next = enter(to, name, &st);
		if (next < 0)
			return -1;
		close(to);
		to = next;
		rel += len + 1;
	}
}

int
draft_mask_add(const struct draft *d, const char *path, struct koda_error *err)
{
	for (size_t i = 0; i < d->n_dirs; i++) {
		const struct draft_dir *dir = &d->dir[i];
		int project, mask;

		if (strcmp(path, dir->path) == 0 || !path_is_inside(path, dir->path))
			continue;
		project = state_open_directory(dir->path, err);
		if (project < 0)
			return -1;
		mask = open_mask(d, dir);
		if (mask < 0) {
			close(project);
			return err_set(err, KODA_IO, errno, "prepare draft '%s'", d->id);
		}
		if (hide(project, mask, path + strlen(dir->path) + 1) < 0)
			return err_set(err, KODA_IO, errno,
			    "hide '%s', which does not exist yet, in a draft", path);
	}
	return 0;
}
