/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/named.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/machine/state.h"
#include "shared/base/beneath.h"
#include "shared/base/cleanup.h"

#define NEW_PREFIX ".new-"
#define OLD_PREFIX ".old-"
#define PREFIX_LEN 5
#define ID_CHARS   8
#define MAKE_TRIES 8 /* ids that exist already */
/* How long a worker lives that notices that its host is gone, generously. */
#define LOCK_PATIENCE_MS 1000
#define LOCK_STEP_MS     10
/* Roots, or ids of one root, that are looked at. */
#define NAMES_MAX 100000

/* Without those that look alike. */
static const char id_alphabet[] = "0123456789abcdefghijkmnpqrstuvwxyz";

const struct named_kind named_drafts = { "drafts", "draft", "koda-sandbox drafts" };
const struct named_kind named_history = { "history", "entry", "koda-sandbox history" };

bool
named_id_valid(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len <= NAMED_ID_MAX && id[0] != '.' &&
	    strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

int
named_open_all(const struct named_kind *kind, const char *state, const char *root, bool make)
{
	cleanup_free char *name = state_quarantine_name(root), *path = NULL;

	if (name == NULL || asprintf(&path, "%s/%s/%s", state, kind->folder, name) < 0) {
		path = NULL;
		errno = ENOMEM;
		return -1;
	}
	if (make && state_make(path) < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- making one ---- */

static void
with_prefix(char ret[PREFIX_LEN + NAMED_ID_MAX + 1], const char *prefix, const char *id)
{
	snprintf(ret, PREFIX_LEN + NAMED_ID_MAX + 1, "%s%s", prefix, id);
}

static void
choose_id(char id[NAMED_ID_MAX + 1])
{
	for (size_t i = 0; i < ID_CHARS; i++)
		id[i] = id_alphabet[randombytes_uniform(sizeof(id_alphabet) - 1)];
	id[ID_CHARS] = '\0';
}

/* Removes `name`, which is not in use, and what is in it. */
static void
remove_tree(int all, const char *name)
{
	cleanup_close int fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && cache_tree_empty(fd, CACHE_NO_DEADLINE) > 0)
		unlinkat(all, name, AT_REMOVEDIR);
}

int
named_make(const struct named_kind *kind, int all, char id[NAMED_ID_MAX + 1],
    struct koda_error *err)
{
	char name[PREFIX_LEN + NAMED_ID_MAX + 1];
	cleanup_close int fd = -1;
	int r = -1;

	for (int i = 0; r < 0 && i < MAKE_TRIES; i++) {
		choose_id(id);
		with_prefix(name, NEW_PREFIX, id);
		r = mkdirat(all, name, 0700);
		if (r < 0 && errno != EEXIST)
			break;
	}
	if (r < 0)
		return err_set(err, KODA_IO, errno, "make a new %s", kind->one);
	fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, KODA_IO, errno, "make a new %s", kind->one);
	return take_fd(&fd);
}

int
named_appear(const struct named_kind *kind, int all, const char *id, struct koda_error *err)
{
	char name[PREFIX_LEN + NAMED_ID_MAX + 1];

	with_prefix(name, NEW_PREFIX, id);
	if (renameat2(all, name, all, id, RENAME_NOREPLACE) == 0)
		return 0;
	err_set(err, KODA_IO, errno, "name the %s", kind->one);
	remove_tree(all, name);
	return -1;
}

void
named_give_up(int all, const char *id)
{
	char name[PREFIX_LEN + NAMED_ID_MAX + 1];

	with_prefix(name, NEW_PREFIX, id);
	remove_tree(all, name);
}

/* ---- the others ---- */

static int
is_none(const struct named_kind *kind, const char *id, struct koda_error *err)
{
	return err_set(err, KODA_INVALID, 0, "there is no %s '%.40s': see %s", kind->one, id,
	    kind->look);
}

/* The workers of a host that was killed share its lock, and end a moment later. */
static int
lock_it(int fd, enum named_lock how)
{
	const struct timespec step = { 0, LOCK_STEP_MS * 1000000 };
	unsigned left = how == NAMED_WAIT ? LOCK_PATIENCE_MS : 0;

	if (how == NAMED_UNLOCKED)
		return 0;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || left == 0)
			return -1;
		nanosleep(&step, NULL);
		left = left > LOCK_STEP_MS ? left - LOCK_STEP_MS : 0;
	}
	return 0;
}

int
named_open(const struct named_kind *kind, int all, const char *id, enum named_lock how,
    struct koda_error *err)
{
	cleanup_close int fd = -1;
	struct stat st, now;

	if (!named_id_valid(id))
		return is_none(kind, id, err);
	fd = openat(all, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT
		    ? is_none(kind, id, err)
		    : err_set(err, KODA_IO, errno, "open %s '%s'", kind->one, id);
	if (lock_it(fd, how) < 0)
		return err_set(err, KODA_CONFLICT, 0,
		    "%s '%s' is in use by another process: end that one first", kind->one, id);
	/* Between the two calls it may have been removed. */
	if (fstat(fd, &st) < 0 || fstatat(all, id, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_ino != now.st_ino || st.st_dev != now.st_dev || st.st_uid != geteuid())
		return is_none(kind, id, err);
	return take_fd(&fd);
}

const char *
named_ask(int errnum)
{
	return errnum == EACCES || errnum == EROFS || errnum == EPERM
	    ? " (can this user write to koda-sandbox's state directory?)"
	    : "";
}

int
named_remove(const struct named_kind *kind, int all, const char *id, struct koda_error *err)
{
	char name[PREFIX_LEN + NAMED_ID_MAX + 1];

	with_prefix(name, OLD_PREFIX, id);
	if (renameat2(all, id, all, name, RENAME_NOREPLACE) < 0)
		return err_set(err, KODA_IO, errno, "remove %s '%s'%s", kind->one, id,
		    named_ask(errno));
	remove_tree(all, name);
	return 0;
}

/* A host was killed while it made or removed this one. */
static bool
is_left_over(int all, const char *name)
{
	cleanup_close int fd = -1;

	if (strncmp(name, NEW_PREFIX, PREFIX_LEN) != 0 &&
	    strncmp(name, OLD_PREFIX, PREFIX_LEN) != 0)
		return false;
	fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

struct names {
	char **v;
	size_t n;
};

static void
names_done(struct names *names)
{
	while (names->n > 0)
		free(names->v[--names->n]);
	free(names->v);
}

/* Reads all names first: those that fn is called with may be removed meanwhile. */
static int
read_names(int all, struct names *ret, struct koda_error *err)
{
	cleanup(closedir_at) DIR *d = cache_read_dir(all);
	const struct dirent *e;

	if (d == NULL)
		return err_set(err, KODA_IO, errno, "read koda-sandbox's own directory");
	while (ret->n < NAMES_MAX && (e = readdir(d)) != NULL) {
		char **grown = reallocarray(ret->v, ret->n + 1, sizeof(*grown));

		if (grown == NULL || (grown[ret->n] = strdup(e->d_name)) == NULL) {
			ret->v = grown != NULL ? grown : ret->v;
			return err_set(err, KODA_INTERNAL, ENOMEM, "names");
		}
		ret->v = grown;
		ret->n++;
	}
	return 0;
}

int
named_list(const struct named_kind *kind, int all, named_each_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup(names_done) struct names names = { 0 };
	int r = 0;

	if (read_names(all, &names, err) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		if (is_left_over(all, names.v[i]))
			remove_tree(all, names.v[i]);
		else if (named_id_valid(names.v[i]))
			r = fn(data, all, names.v[i]);
	}
	return r;
}

int
named_roots(const struct named_kind *kind, const char *state, named_root_fn *fn, void *data,
    struct koda_error *err)
{
	cleanup(names_done) struct names names = { 0 };
	cleanup_free char *path = NULL;
	cleanup_close int roots = -1;
	int r = 0;

	if (asprintf(&path, "%s/%s", state, kind->folder) < 0) {
		path = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "names");
	}
	roots = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (roots < 0 && errno == ENOENT)
		return 0;
	if (roots < 0)
		return err_set(err, KODA_IO, errno, "open '%s'", path);
	if (read_names(roots, &names, err) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		cleanup_close int all = names.v[i][0] == '.'
		    ? -1
		    : openat(roots, names.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (all >= 0)
			r = fn(data, all);
	}
	return r;
}
