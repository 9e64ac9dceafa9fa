/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "stage2/mounts.h"
#include "stage2/restrict.h"

/* Mounts below private places: the project, the home directory, a few files. */
#define KEPT_MAX 1024

struct kept_place {
	char *path;
	const char *place; /* the private place that it is in */
	int fd;            /* a copy of the mount and of all mounts below it */
};

struct kept_list {
	struct kept_place *v;
	size_t n;
};

static void
kept_done(struct kept_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->v[i].path);
		close_at(&list->v[i].fd);
	}
	free(list->v);
}

static const char *
place_of(char *const *places, const char *path)
{
	for (size_t i = 0; places[i] != NULL; i++)
		if (path_is_inside(path, places[i]) && strcmp(path, places[i]) != 0)
			return places[i];
	return NULL;
}

/* Copy the mount at path, unless another mount covers it: then path shows a mount with another
 * ID. */
static int
keep_mount(struct kept_list *list, const char *path, const char *place, int64_t id,
    struct koda_error *err)
{
	cleanup_close int at = resolve(AT_FDCWD, path);
	struct kept_place *k = &list->v[list->n];

	if (at < 0 || mount_id(at) != id)
		return 0;
	for (size_t i = 0; i < list->n; i++)
		if (path_is_inside(path, list->v[i].path))
			return 0; /* that copy contains this one as well */
	if (list->n == KEPT_MAX)
		return err_set(err, KODA_TOO_LARGE, 0, "more than %d mounts below '%s'", KEPT_MAX,
		    place);
	*k = (struct kept_place){ strdup(path), place, clone_mount(at) };
	list->n++;
	if (k->path == NULL || k->fd < 0)
		return err_set(err, KODA_INTERNAL, k->path == NULL ? ENOMEM : errno, "keep '%s'",
		    path);
	return 0;
}

/* mountinfo lists mounts in the order in which they were made, so a mount comes before those in
 * it. */
static int
find_kept(char *const *places, struct kept_list *list, struct koda_error *err)
{
	cleanup_free char *line = NULL;
	size_t size = 0;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	int r = 0;

	list->v = calloc(KEPT_MAX + 1, sizeof(*list->v));
	if (f == NULL || list->v == NULL)
		r = err_set(err, KODA_INTERNAL, errno, "read the mounts");
	while (r == 0 && getline(&line, &size, f) > 0) {
		struct mount_line m;
		const char *place;

		if (!mounts_read_line(line, &m)) {
			r = err_set(err, KODA_INTERNAL, 0, "mountinfo has a malformed line");
			break;
		}
		place = place_of(places, m.path);
		if (place != NULL)
			r = keep_mount(list, m.path, place, m.id, err);
	}
	if (f != NULL)
		fclose(f);
	return r;
}

/* Make a directory of the file system and mount it at path. Returns the mount's descriptor, or
 * -1. */
static int
mount_place(int fs, size_t i, const char *path, unsigned mode)
{
	cleanup_close int tree = -1, at = -1;
	char name[16];

	snprintf(name, sizeof(name), "%zu", i);
	if (mkdirat(fs, name, 0700) < 0 || fchmodat(fs, name, mode, 0) < 0)
		return -1;
	tree = sys_open_tree(fs, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (tree < 0 || at < 0 || attach(tree, at) < 0)
		return -1;
	return take_fd(&tree);
}

/* Make the first directory on the way from a place to a kept mount read-only. As a mount of its
 * own it cannot be renamed either. */
static int
make_way_read_only(int place_fd, const char *place, const char *rel, size_t len)
{
	cleanup_close int tree = -1, at = -1;
	cleanup_free char *name = strndup(rel, len), *path = NULL;

	if (name == NULL || asprintf(&path, "%s/%s", place, name) < 0) {
		path = NULL;
		errno = ENOMEM;
		return -1;
	}
	at = resolve(AT_FDCWD, path);
	/* It is on the way to another kept mount, and is read-only already. */
	if (at < 0 || mount_id(at) != mount_id(place_fd))
		return at < 0 ? -1 : 0;
	tree = sys_open_tree(place_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree < 0 || make_read_only(tree, 0) < 0 ? -1 : attach(tree, at);
}

/* Make the mount point of a kept mount, before the directories that lead to it become read-only. */
static int
make_kept_place(int place_fd, const struct kept_place *k)
{
	cleanup_close int made = -1;
	struct stat st;

	if (fstat(k->fd, &st) < 0)
		return -1;
	made = mounts_make_place(place_fd, k->path + strlen(k->place) + 1, S_ISDIR(st.st_mode));
	return made < 0 ? -1 : 0;
}

static int
mount_kept(int place_fd, const struct kept_place *k)
{
	const char *rel = k->path + strlen(k->place) + 1, *slash = strchr(rel, '/');
	cleanup_close int at = -1;

	if (slash != NULL && make_way_read_only(place_fd, k->place, rel, (size_t)(slash - rel)) < 0)
		return -1;
	at = resolve(AT_FDCWD, k->path);
	return at < 0 ? -1 : attach(k->fd, at);
}

static int
mount_all_kept(const struct kept_list *list, char *const *places, const int *fds,
    struct koda_error *err)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < list->n; i++) {
			const struct kept_place *k = &list->v[i];
			size_t p = 0;

			while (places[p] != k->place)
				p++;
			if ((pass == 0 ? make_kept_place(fds[p], k) : mount_kept(fds[p], k)) < 0)
				return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s' again",
				    k->path);
		}
	return 0;
}

static int
mount_all(int memory_fd, const Koda__Boot *boot, char *const *places, int *fds,
    const struct kept_list *kept, struct koda_error *err)
{
	for (size_t i = 0; places[i] != NULL; i++) {
		fds[i] = mount_place(memory_fd, i, places[i], boot->private_[i]->mode);
		if (fds[i] < 0)
			return err_set(err, KODA_UNSUPPORTED, errno, "mount '%s'", places[i]);
	}
	return mount_all_kept(kept, places, fds, err);
}

int
private_mount(int memory_fd, const Koda__Boot *boot, struct koda_error *err)
{
	char *places[PRIVATE_PLACES_MAX + 1] = { NULL };
	int fds[PRIVATE_PLACES_MAX];
	cleanup(kept_done) struct kept_list kept = { 0 };
	int r = 0;

	if (boot->n_private_ == 0)
		return 0;
	for (size_t i = 0; i < PRIVATE_PLACES_MAX; i++)
		fds[i] = -1;
	for (size_t i = 0; r == 0 && i < boot->n_private_; i++) {
		places[i] = strndup((const char *)boot->private_[i]->path.data,
		    boot->private_[i]->path.len);
		if (places[i] == NULL)
			r = err_set(err, KODA_INTERNAL, ENOMEM, "private places");
	}
	if (r == 0)
		r = find_kept(places, &kept, err);
	if (r == 0)
		r = mount_all(memory_fd, boot, places, fds, &kept, err);
	for (size_t i = 0; i < PRIVATE_PLACES_MAX; i++) {
		close_at(&fds[i]);
		free(places[i]);
	}
	return r;
}

int
private_seal(struct koda_error *err)
{
	static const char *const dirs[] = { "/dev", "/run" };

	for (size_t i = 0; i < N_ELEMENTS(dirs); i++) {
		cleanup_close int fd = open(dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || make_read_only(fd, 0) < 0)
			return err_set(err, KODA_UNSUPPORTED, errno, "make '%s' read-only",
			    dirs[i]);
	}
	return 0;
}
