/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/own_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "stage2/mounts.h"

/* How often to unmount what is still mounted: a mount that was moved away meanwhile is found the
 * next time. */
#define UNMOUNT_TRIES 4

/* After this many former mounts, those that are not mounted any more are dropped. */
#define FORMER_MAX 256

struct own_mount {
	int id;
	char *path;
};

static bool
is_ours(const struct slot_view *v, int id)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->entry[i].there && v->entry[i].mount_id == id)
			return true;
	for (size_t i = 0; i < v->n_former; i++)
		if (v->former[i] == id)
			return true;
	return false;
}

/* Find our mounts as they are mounted now, even if a process outside has moved them. The caller
 * owns *ret. Returns 0, or -1. */
static int
find_ours(const struct slot_view *v, struct own_mount **ret, size_t *ret_n)
{
	cleanup_free char *line = NULL;
	size_t line_size = 0, size = 0, n = 0;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct own_mount *places = NULL;
	bool bad = f == NULL;

	while (!bad && getline(&line, &line_size, f) > 0) {
		struct mount_line m;

		if (!mounts_read_line(line, &m)) {
			bad = true;
		} else if (is_ours(v, m.id)) {
			char *path = strdup(m.path);

			if (n == size) {
				struct own_mount *more =
				    realloc(places, (size += 64) * sizeof(*more));

				bad = more == NULL;
				places = bad ? places : more;
			}
			bad = bad || path == NULL;
			if (bad)
				free(path);
			else
				places[n++] = (struct own_mount){ m.id, path };
		}
	}
	if (f != NULL) {
		bad = bad || ferror(f);
		fclose(f);
	}
	*ret = places;
	*ret_n = n;
	return bad ? -1 : 0;
}

void
own_mounts_unmount(int id, const char *path)
{
	cleanup_close int fd = resolve(AT_FDCWD, path);

	(void)mounts_detach(fd, id);
}

int
own_mounts_unmount_all(struct slot_view *v, struct koda_error *err)
{
	for (int tries = 0; tries < UNMOUNT_TRIES; tries++) {
		struct own_mount *places;
		size_t n;
		int r = find_ours(v, &places, &n);

		/* They are listed in the order in which they were made, so begin at the end. */
		for (size_t i = n; i > 0; i--) {
			if (r == 0)
				own_mounts_unmount(places[i - 1].id, places[i - 1].path);
			free(places[i - 1].path);
		}
		free(places);
		if (r < 0)
			return err_set(err, KODA_INTERNAL, errno, "read mountinfo");
		if (n == 0)
			return 0;
	}
	return err_set(err, KODA_INTERNAL, EBUSY, "the mounts of the former plan are still there");
}

/* Drop former mounts that are not mounted any more. */
static void
prune_former(struct slot_view *v)
{
	struct own_mount *places;
	size_t n, kept = 0;
	int r = find_ours(v, &places, &n);

	for (size_t i = 0; r == 0 && i < v->n_former; i++) {
		bool mounted = false;

		for (size_t k = 0; k < n && !mounted; k++)
			mounted = places[k].id == v->former[i];
		if (mounted)
			v->former[kept++] = v->former[i];
	}
	if (r == 0)
		v->n_former = kept;
	for (size_t i = 0; i < n; i++)
		free(places[i].path);
	free(places);
}

int
own_mounts_keep_former(struct slot_view *v, int64_t id)
{
	int *more;

	if (id < 0)
		return 0;
	if (v->n_former >= FORMER_MAX)
		prune_former(v);
	more = realloc(v->former, (v->n_former + 1) * sizeof(*more));
	if (more == NULL)
		return -1;
	v->former = more;
	v->former[v->n_former++] = (int)id;
	return 0;
}
