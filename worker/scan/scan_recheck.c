/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_recheck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/followed_judge.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_results.h"

/* The open parent directory of a rule's path, kept for the next rule, which often shares it. */
struct held {
	char dir[PATH_LEN_MAX + 1];
	int fd; /* -1: see `why` */
	int why;
	/* Length of the root's or cache's part of the path. */
	size_t from;
};

static int
hold(const struct scan *sc, struct held *h, const char *path, size_t len)
{
	cleanup_close int fd = -1;

	if (strlen(h->dir) == len && memcmp(h->dir, path, len) == 0)
		return h->fd;
	close_at(&h->fd);
	memcpy(h->dir, path, len);
	h->dir[len] = '\0';
	for (int i = 0; i < 2; i++) {
		close_at(&fd);
		fd = resolve_canonical_dir(sc->res, path, len);
		h->fd =
		    fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		h->why = errno;
		if (h->fd >= 0 || h->why != EACCES || sc->phase == PHASE_LEARN ||
		    !make_listable(sc, h->dir, h->from))
			break;
	}
	return h->fd;
}

static void
held_done(struct held *h)
{
	close_at(&h->fd);
}

/* Returns the length of the root or cache that contains the path, or 0. */
static size_t
looked_through_to(const struct scan *sc, const char *path)
{
	size_t len = 0;

	for (size_t i = 0; i < sc->n_roots; i++) {
		if (path_is_inside(path, sc->root[i].path) && strlen(sc->root[i].path) > len)
			len = strlen(sc->root[i].path);
	}
	for (size_t i = 0; i < sc->n_caches; i++) {
		if (path_is_inside(path, sc->cache[i]) && strlen(sc->cache[i]) > len)
			len = strlen(sc->cache[i]);
	}
	return len;
}

/* Judges every place that commands can still change, event or not: a process that has the file open
 * can write without causing one. */
int
judge_unsealed(struct scan *sc)
{
	for (uint32_t i = 0; i < sc->n_known && sc->unsealed > 0; i++) {
		const struct known *k = &sc->known[i];
		cleanup(held_done) struct held h = { .fd = -1 };
		cleanup_free char *path = NULL;
		const char *name;
		int fd;

		if (k->path == NULL || k->sealed)
			continue;
		path = strdup(k->path);
		if (path == NULL)
			return -1;
		name = strrchr(path, '/') + 1;
		/* A command could make the directory unreadable to prevent a verdict. */
		h.from = looked_through_to(sc, path);
		fd = h.from > 0 ? hold(sc, &h, path, (size_t)(name - path) - 1) : -1;
		if (fd >= 0 && has_name(fd, name))
			found(sc, k->what, fd, path, name);
		else if (fd >= 0 || h.why == ENOENT || h.why == ENOTDIR)
			forget_known(sc, &sc->known[i]);
	}
	return 0;
}

static int
judge_cached_path(struct scan *sc, struct held *h, const char *path)
{
	char part[PATH_LEN_MAX + 1];
	const char *end = strrchr(path, '/');
	int fd = hold(sc, h, path, (size_t)(end - path));

	if (fd >= 0 && has_name(fd, end + 1)) {
		found(sc, WHAT_RULE, fd, path, end + 1);
		return 0;
	}
	if (known_at(sc, path) != NULL)
		sc->due.verify = true;
	if (fd >= 0 || h->why == ENOENT)
		return 0;
	if (h->why == EMFILE || h->why == ENFILE || h->why == ENOMEM)
		return -1;
	if (h->why == EACCES && sc->phase != PHASE_LEARN)
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, WHAT_RULE, path, NULL,
		    "it cannot be examined");
	/* The first component that is not a directory could lead anywhere. */
	snprintf(part, sizeof(part), "%s", path);
	for (end = path + h->from; (end = strchr(end + 1, '/')) != NULL;) {
		struct stat st;
		char *name;

		part[end - path] = '\0';
		name = strrchr(part, '/') + 1;
		fd = hold(sc, h, part, (size_t)(name - part) - 1);
		if (fd < 0)
			break;
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) {
			found(sc, WHAT_RULE, fd, part, name);
			break;
		}
		part[end - path] = '/';
	}
	return 0;
}

/* Caches are too large to scan, and their tools own the content. Only paths that a rule names are
 * judged. */
int
judge_cached(struct scan *sc)
{
	cleanup(held_done) struct held h = { .fd = -1 };

	for (size_t i = 0; i < sc->n_cached; i++) {
		const char *path = sc->cached[i];

		h.from = 0;
		for (size_t k = 0; k < sc->n_caches && h.from == 0; k++)
			h.from = path_is_inside(path, sc->cache[k]) ? strlen(sc->cache[k]) : 0;
		if (judge_cached_path(sc, &h, path) < 0)
			return -1;
	}
	return 0;
}

void
verify_known(struct scan *sc)
{
	sc->due.verify = false;
	for (uint32_t i = 0; i < sc->n_known; i++) {
		struct known *k = &sc->known[i];

		if (k->path == NULL || !k->sealed || k->what == WHAT_REBASE ||
		    known_is_there(sc, k))
			continue;
		/* A git directory may disappear with the directory that holds it; the places inside
		 * it are reported. Packages come and go. */
		if (k->what != WHAT_PIN && k->what != WHAT_STRANGE && !followed_is(k->what) &&
		    !k->guarded)
			scan_tell(sc, KODA__CHANGE_KIND__CHANGE_OUTSIDE, k->what, k->path, NULL,
			    "it was removed");
		forget_known(sc, k);
	}
}
