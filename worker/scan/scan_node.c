/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"
#include "worker/scan/scan_known.h"

/* Events that can give a directory a name, an entry or, through its permissions, a reader that it
 * did not have. */
#define WATCH                                                                                      \
	(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_ONLYDIR |            \
	    IN_EXCL_UNLINK)
/* For a directory with a known place: also changes to file contents. */
#define WATCH_CONTENT (WATCH | IN_CLOSE_WRITE | IN_MODIFY)
/* The kernel reuses watch descriptors only after it has used all of them. Beyond this number the
 * scan starts over with an empty table. */
#define WATCHES_MAX (1 << 20)
/* ---- directories ---- */

void
release_node(struct scan *sc, uint32_t idx)
{
	while (idx != NONE && sc->node[idx].name == NULL && sc->node[idx].children == 0) {
		uint32_t parent = sc->node[idx].parent;

		sc->node[idx].children = NONE; /* in the free list */
		sc->node[idx].parent = sc->free_node;
		sc->free_node = idx;
		if (parent != NONE)
			sc->node[parent].children--;
		idx = parent;
	}
}

void
drop_node(struct scan *sc, uint32_t idx)
{
	struct node *n = &sc->node[idx];

	if (n->name == NULL)
		return;
	if (n->wd >= 0) {
		sc->by_wd[n->wd] = 0;
		if (sc->ifd >= 0)
			inotify_rm_watch(sc->ifd, n->wd);
		n->wd = -1;
	}
	free(n->name);
	n->name = NULL;
	release_node(sc, idx);
}

uint32_t
add_node(struct scan *sc, uint32_t parent, uint8_t root, const char *name)
{
	uint32_t idx = sc->free_node;
	size_t size = sc->nodes_size;
	char *copy = strdup(name);

	if (copy != NULL && idx == NONE && sc->n_nodes < NONE - 1 &&
	    scan_grow(&sc->node, sc->n_nodes, &size, sizeof(*sc->node)) == 0)
		idx = sc->n_nodes++;
	else if (copy != NULL && idx != NONE)
		sc->free_node = sc->node[idx].parent;
	sc->nodes_size = (uint32_t)size;
	if (idx == NONE || copy == NULL) {
		free(copy);
		return NONE;
	}
	sc->node[idx] = (struct node){ .parent = parent,
		.wd = -1,
		.name = copy,
		.root = root,
		.vendored = names_is_vendor(name) || (parent != NONE && sc->node[parent].vendored),
		.born = sc->started ? sc->era : 0,
		.depth = parent == NONE ? 0 : (uint16_t)(sc->node[parent].depth + 1) };
	if (parent != NONE)
		sc->node[parent].children++;
	return idx;
}

/* Stores the canonical path as far as it is known, followed by `name` (may be NULL). Returns its
 * length, or 0 if the directory is gone or the path is too long. */
size_t
node_path(const struct scan *sc, uint32_t idx, const char *name, char ret[PATH_LEN_MAX + 1])
{
	const char *part[SCAN_DEPTH_MAX + 2];
	size_t n = 0, len = 0;

	if (name != NULL)
		part[n++] = name;
	for (;; idx = sc->node[idx].parent) {
		if (sc->node[idx].name == NULL || n > SCAN_DEPTH_MAX + 1)
			return 0;
		if (sc->node[idx].parent == NONE)
			break;
		part[n++] = sc->node[idx].name;
	}
	len = strlen(sc->root[sc->node[idx].root].path);
	memcpy(ret, sc->root[sc->node[idx].root].path, len);
	while (n > 0) {
		size_t k = strlen(part[--n]);

		if (len + 1 + k > PATH_LEN_MAX)
			return 0;
		ret[len++] = '/';
		memcpy(ret + len, part[n], k);
		len += k;
	}
	ret[len] = '\0';
	return len;
}

bool
is_in_refs(const struct scan *sc, uint32_t idx)
{
	for (uint32_t up; (up = sc->node[idx].parent) != NONE; idx = up) {
		if (sc->node[up].git && access_name_of(sc->node[idx].name) == ACCESS_NAME_REFS)
			return true;
	}
	return false;
}

/*
 * Gives the owner read and search permission again. The owner of a directory could remove its own
 * permission to list it, put something there, and restore the permission when the scan no longer
 * looks. Returns false if there was nothing to restore.
 */
static bool
give_back(const struct scan *sc, int fd)
{
	char name[16];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 0500) == 0500)
		return false;
	/* An O_PATH descriptor cannot change the mode, but its name in /proc can. */
	snprintf(name, sizeof(name), "%d", fd);
	return fchmodat(sc->res->proc_fd, name, (st.st_mode & 07777) | 0500, 0) == 0;
}

/* A change of a root's own mode causes no event. */
void
make_roots_listable(const struct scan *sc)
{
	for (size_t i = 0; i < sc->n_roots; i++)
		give_back(sc, sc->root[i].fd);
}

/* Restores the permissions of each directory from path[0..from) down to the whole path. */
bool
make_listable(const struct scan *sc, const char *path, size_t from)
{
	bool made = false;

	for (size_t len = from;; len += 1 + strcspn(path + len + 1, "/")) {
		cleanup_close int fd = resolve_canonical_dir(sc->res, path, len);

		made |= give_back(sc, fd);
		if (path[len] == '\0')
			return made;
	}
}

/* Opens the directory for reading, beneath its root and through no link. -1 with errno. */
int
open_below(const struct scan *sc, uint8_t root, char *path)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	const char *rel = path + strlen(sc->root[root].path);
	int fd = sc->root[root].fd;

	if (*rel == '\0')
		return openat(fd, ".", flags);
	rel++;
	if (!sc->res->no_openat2)
		return open_beneath(fd, rel, flags);
	return open_walked(fd, rel, flags);
}

/* Like open_below(), but restores missing permissions to list it. */
int
open_listed(const struct scan *sc, uint8_t root, char *path)
{
	int fd = open_below(sc, root, path);

	/* A directory that could not be listed before any command ran is the user's choice. */
	if (fd >= 0 || errno != EACCES || sc->phase == PHASE_LEARN)
		return fd;
	if (!make_listable(sc, path, strlen(sc->root[root].path))) {
		errno = EACCES;
		return -1;
	}
	return open_below(sc, root, path);
}

/* Forgets all watches. From now on each comparison walks everything. */
void
stop_watching(struct scan *sc)
{
	close_at(&sc->ifd);
	sc->ifd = -1;
	sc->watched = false;
	sc->due.walk = true;
	for (uint32_t i = 0; i < sc->n_nodes; i++)
		sc->node[i].wd = -1;
	free(sc->by_wd);
	sc->by_wd = NULL;
	sc->wds = 0;
}

void
start_watching(struct scan *sc)
{
	sc->ifd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	sc->watched = sc->ifd >= 0;
	if (!sc->watched)
		sc->watch_errno = errno;
}

/* Watches the directory behind fd. Returns the watch descriptor, or -1 if nothing is watched any
 * more. */
int
watch_directory(struct scan *sc, int fd, bool content)
{
	char name[16];
	int wd;

	if (!sc->watched)
		return -1;
	/* The working directory is /proc/self/fd, so this names the directory itself, even if it
	 * was renamed. */
	snprintf(name, sizeof(name), "%d", fd);
	wd = inotify_add_watch(sc->ifd, name, content ? WATCH_CONTENT : WATCH);
	if (wd < 0 || wd >= WATCHES_MAX) {
		sc->watch_errno = wd < 0 ? errno : ENOSPC;
		stop_watching(sc);
		return -1;
	}
	if ((size_t)wd >= sc->wds) {
		size_t size = sc->wds == 0 ? 256 : sc->wds;
		uint32_t *grown;

		while (size <= (size_t)wd)
			size *= 2;
		grown = realloc(sc->by_wd, size * sizeof(*grown));
		if (grown == NULL) {
			stop_watching(sc);
			return -1;
		}
		memset(grown + sc->wds, 0, (size - sc->wds) * sizeof(*grown));
		sc->by_wd = grown;
		sc->wds = size;
	}
	return wd;
}
