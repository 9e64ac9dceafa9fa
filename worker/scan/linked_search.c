/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/linked_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/deep.h"
#include "worker/scan/led.h"
#include "worker/scan/linked.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_names.h"
#include "worker/scan/scan_node.h"
#include "worker/scan/scan_results.h"

/*
 * Limits of the first search: files whose other names are searched for, and entries read for that
 * in protected directories. A home directory has more, in installed programs; exceeding the limit
 * is not reported as missing coverage of the rest.
 */
#define FOUND_MAX  1024
#define LOOKED_MAX (256u << 10)
/* Places checked in one comparison. */
#define AGAIN_MAX 1024

/* A file of a protected place that has other names. */
struct file {
	dev_t dev;
	ino_t ino;
	enum what what;
	nlink_t names; /* names not found yet */
};

struct linked_search {
	struct scan *sc;
	enum what what; /* of the current place */
	bool met;       /* the current place has such a file */
	struct file file[FOUND_MAX];
	/* Number of files, and how many of them have names not found yet. */
	size_t n, open;
	/* Filter by the low bits of the inode number: most entries match no file. */
	bool maybe[4096];
	char **step; /* paths of directories to read */
	size_t n_steps, steps_size;
	uint64_t names;
};

static struct file *
file_of(struct linked_search *f, ino_t ino, const dev_t *dev)
{
	for (size_t i = 0; f->maybe[ino % N_ELEMENTS(f->maybe)] && i < f->n; i++) {
		if (f->file[i].ino == ino && (dev == NULL || f->file[i].dev == *dev))
			return &f->file[i];
	}
	return NULL;
}

static int
note_file(void *data, int dir_fd, const char *name, const struct stat *st)
{
	struct linked_search *f = data;
	struct file *file = file_of(f, st->st_ino, &st->st_dev);

	(void)dir_fd;
	(void)name;
	f->met = true;
	if (file == NULL) {
		/* linked_look_again() reports a change of it. */
		if (f->n == FOUND_MAX)
			return 0;
		file = &f->file[f->n++];
		*file = (struct file){ st->st_dev, st->st_ino, f->what, st->st_nlink };
		f->maybe[st->st_ino % N_ELEMENTS(f->maybe)] = true;
		f->open++;
	}
	/* Another protected place may have the file, too. */
	if (file->names > 0 && --file->names == 0)
		f->open--;
	return 0;
}

/* Returns true if a second name of the place matters. It does not for git's own data or for files
 * of packages. */
static bool
is_of_interest(const struct known *k)
{
	return k->path != NULL && !k->guarded && k->what != WHAT_PIN && k->what != WHAT_TOLD &&
	    k->what != WHAT_STRANGE && k->what != WHAT_ALTERNATES && k->what != WHAT_REBASE;
}

static void
look_at_known(struct linked_search *f)
{
	unsigned entries = LOOKED_MAX;

	for (uint32_t i = 0; i < f->sc->n_known; i++) {
		struct known *k = &f->sc->known[i];
		const char *name = k->path != NULL ? strrchr(k->path, '/') + 1 : NULL;
		cleanup_close int fd = -1;
		struct stat st;

		if (!is_of_interest(k))
			continue;
		fd = resolve_canonical_dir(f->sc->res, k->path, (size_t)(name - k->path) - 1);
		f->what = led_what(k->what, k->path);
		f->met = false;
		if (fd >= 0)
			linked_each(fd, name, &entries, note_file, f);
		k->linked = f->met;
		if (f->met && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			k->deep = deep_of(fd, name, &st, NULL);
	}
}

/* Returns true if the path is a protected place, or inside one. */
static bool
is_in_place(struct scan *sc, const char *path)
{
	char part[PATH_LEN_MAX + 1];

	snprintf(part, sizeof(part), "%s", path);
	for (char *end = part + strlen(part); end != NULL && end > part; end = strrchr(part, '/')) {
		const struct known *k;

		*end = '\0';
		k = known_at(sc, part);
		if (k != NULL && is_of_interest(k))
			return true;
	}
	return false;
}

static void
take_name(struct linked_search *f, int dir_fd, const char *name, const char *path)
{
	struct scan *sc = f->sc;
	struct file *file;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	file = file_of(f, st.st_ino, &st.st_dev);
	if (file == NULL || file->names == 0 || is_in_place(sc, path))
		return;
	/* Commands write to a layer of a cache, not to the cache itself. Package managers link
	 * their files to installed programs, and replace them. */
	if (!scan_keeps(sc, path) || is_vendored(sc, path))
		return;
	if (--file->names == 0)
		f->open--;
	if (sc->led_left == 0 || !take_mounts(sc, path)) {
		sc->cut = true;
		return;
	}
	sc->led_left--;
	scan_add_target(sc, file->what, path, false);
}

static int
add_directory(struct linked_search *f, const char *path)
{
	char *copy = NULL;

	if (scan_grow(&f->step, f->n_steps, &f->steps_size, sizeof(*f->step)) < 0 ||
	    (copy = strdup(path)) == NULL) {
		f->sc->cut = true;
		return -1;
	}
	f->step[f->n_steps++] = copy;
	return 0;
}

/* A directory lists the inode number of each entry, so nearly all entries can be skipped without a
 * system call. */
static void
look_in(struct linked_search *f, uint8_t root, const char *dir)
{
	char path[PATH_LEN_MAX + 1];
	const size_t len = strlen(dir);
	cleanup(closedir_at) DIR *d = NULL;
	cleanup_close int fd = -1;
	struct dirent *e;

	memcpy(path, dir, len + 1);
	fd = open_below(f->sc, root, path);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL)
		return;
	fd = -1;
	while (f->open > 0 && (e = readdir(d)) != NULL) {
		const size_t k = strlen(e->d_name);

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (++f->names > SCAN_NAMES_MAX || len + 1 + k > PATH_LEN_MAX) {
			f->sc->cut = true;
			continue;
		}
		path[len] = '/';
		memcpy(path + len + 1, e->d_name, k + 1);
		if (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)
			add_directory(f, path);
		if (e->d_type != DT_DIR && file_of(f, e->d_ino, NULL) != NULL)
			take_name(f, dirfd(d), e->d_name, path);
		path[len] = '\0';
	}
}

void
linked_find_all(struct scan *sc)
{
	struct linked_search *f = calloc(1, sizeof(*f));

	if (f == NULL) {
		sc->cut = true;
		return;
	}
	f->sc = sc;
	look_at_known(f);
	for (size_t i = 0; i < sc->n_roots && f->open > 0; i++) {
		if (add_directory(f, sc->root[i].path) < 0)
			break;
		while (f->n_steps > 0) {
			cleanup_free char *dir = f->step[--f->n_steps];

			if (f->open > 0 && f->names <= SCAN_NAMES_MAX)
				look_in(f, (uint8_t)i, dir);
		}
	}
	free(f->step);
	free(f);
}

/* ---- later ---- */

/* The host does not protect other names that were not found, so report a change of the content. */
static void
look_at_directory(struct scan *sc, struct known *k, int fd, const char *name)
{
	uint64_t deep;
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return;
	deep = deep_of(fd, name, &st, NULL);
	if (deep != k->deep)
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_OUTSIDE, k->what, k->path, NULL, NULL);
	k->deep = deep;
}

int
linked_look_again(struct scan *sc)
{
	unsigned looked = 0;

	for (uint32_t n = sc->n_known; n > 0 && looked < AGAIN_MAX; n--) {
		cleanup_free char *path = NULL;
		cleanup_close int held = -1, fd = -1;
		struct known *k;
		const char *name;

		if (sc->next_again >= sc->n_known)
			sc->next_again = 0;
		k = &sc->known[sc->next_again++];
		if (k->path == NULL || k->left || !k->sealed ||
		    !(k->guarded ? k->what == WHAT_NAME : k->linked))
			continue;
		looked++;
		path = strdup(k->path);
		if (path == NULL)
			return -1;
		name = strrchr(path, '/') + 1;
		held = resolve_canonical_dir(sc->res, path, (size_t)(name - path) - 1);
		fd = held < 0 ? -1
			      : openat(held, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !k->guarded && S_ISDIR(k->stamp.mode))
			look_at_directory(sc, k, fd, name);
		else if (fd >= 0 && has_name(fd, name))
			found(sc, k->what, fd, path, name);
	}
	return 0;
}
