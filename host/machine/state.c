/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/state.h"

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

#include "shared/base/beneath.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define OWN_NAME   "koda-sandbox"
#define QUARANTINE "quarantine"
#define CACHES     "caches"
#define JOURNAL    "journal"
#define HISTORY    "history"
#define HASH_BYTES 8
/* Characters of the root's own name, so that a user can recognize it. */
#define NAME_SHOWN 40

/* Waits for a process that is just removing the directory, which takes microseconds. A process that
 * keeps the lock delays others no longer than this. */
#define LOCK_WAIT_MS 1000
#define LOCK_TICK_MS 5
#define TRIES        10 /* to open it while others remove it */

/* For each directory above it that we created, the state directory holds a mark, ".made-1" for the
 * nearest one. Those directories are removed together with it. */
#define MADE_PREFIX ".made-"
#define MADE_MAX    8 /* levels; no missing XDG_STATE_HOME has more */

/* ---- its path ---- */

/* Resolves the existing part of the path, as the kernel would, and appends the rest unchanged. */
static char *
canonical(const char *path)
{
	cleanup_free char *part = strdup(path), *real = NULL;
	const char *rest = "";
	char *ret;

	if (part == NULL)
		return NULL;
	while ((real = realpath(part, NULL)) == NULL) {
		char *slash = strrchr(part, '/');

		if (errno != ENOENT || slash == NULL || slash == part)
			return NULL;
		*slash = '\0';
		rest = path + (slash - part);
	}
	if (strstr(rest, "//") != NULL || strstr(rest, "/./") != NULL ||
	    strstr(rest, "/../") != NULL)
		return NULL;
	return asprintf(&ret, "%s%s", strcmp(real, "/") == 0 ? "" : real, rest) < 0 ? NULL : ret;
}

char *
state_path_as_named(const char *home)
{
	const char *base = getenv("XDG_STATE_HOME");
	char *path;
	int r;

	if (base != NULL && base[0] == '/') {
		size_t len = strlen(base);

		while (len > 1 && base[len - 1] == '/')
			len--;
		r = asprintf(&path, "%.*s/" OWN_NAME, (int)len, base);
	} else if (home[0] == '/') {
		r = asprintf(&path, "%s/.local/state/" OWN_NAME,
		    strcmp(home, "/") == 0 ? "" : home);
	} else {
		return NULL;
	}
	return r < 0 ? NULL : path;
}

char *
state_path(const char *home)
{
	cleanup_free char *path = state_path_as_named(home);

	return path == NULL ? NULL : canonical(path);
}

char *
state_quarantine_name(const char *root)
{
	const char *name = strrchr(root, '/') + 1;
	uint8_t hash[crypto_generichash_BYTES];
	char hex[2 * HASH_BYTES + 1], shown[NAME_SHOWN + 1];
	char *ret;
	size_t n = 0;

	for (; name[n] != '\0' && n < NAME_SHOWN; n++)
		shown[n] = name[n] > ' ' && name[n] < 127 ? name[n] : '_';
	shown[n] = '\0';
	if (shown[0] == '.')
		shown[0] = '_';
	crypto_generichash(hash, sizeof(hash), (const uint8_t *)root, strlen(root), NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), hash, HASH_BYTES);
	return asprintf(&ret, "%s-%s", shown, hex) < 0 ? NULL : ret;
}

char *
state_all_caches_path(const char *home)
{
	cleanup_free char *state = state_path(home);
	char *ret;

	return state == NULL || asprintf(&ret, "%s/" CACHES, state) < 0 ? NULL : ret;
}

char *
state_caches_path(const char *root, const char *home)
{
	cleanup_free char *all = state_all_caches_path(home), *name = state_quarantine_name(root);
	char *ret;

	return all == NULL || name == NULL || asprintf(&ret, "%s/%s", all, name) < 0 ? NULL : ret;
}

/* ---- making and holding it ---- */

/* Like mkdir -p, with mode 0700. made[i]: this call created the directory i levels above the last
 * one. */
static int
make(const char *path, bool made[MADE_MAX + 1])
{
	cleanup_free char *part = strdup(path);
	bool denied = false;
	size_t level = 0;

	if (part == NULL)
		return -1;
	for (const char *p = part + 1; *p != '\0'; p++)
		level += *p == '/';
	for (char *p = part + 1;; p++) {
		const char was = *p;

		if (was != '/' && was != '\0')
			continue;
		*p = '\0';
		if (mkdir(part, 0700) == 0) {
			if (level <= MADE_MAX)
				made[level] = true;
		} else if (errno != EEXIST && (was == '\0' || errno != EACCES)) {
			/* Not because of what is missing, but because it could not be made. */
			if (denied && errno == ENOENT)
				errno = EACCES;
			return -1;
		} else {
			denied = denied || errno == EACCES;
		}
		if (was == '\0')
			return 0;
		*p = was;
		level--;
	}
}

int
state_make(const char *path)
{
	bool made[MADE_MAX + 1];

	return make(path, made);
}

static bool
lock(int fd)
{
	const struct timespec tick = { .tv_nsec = LOCK_TICK_MS * 1000000 };

	for (int ms = 0; ms < LOCK_WAIT_MS; ms += LOCK_TICK_MS) {
		if (flock(fd, LOCK_SH | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK)
			return false;
		nanosleep(&tick, NULL);
	}
	return false;
}

bool
state_is_there(int fd, const char *path)
{
	struct stat st, now;

	return fstat(fd, &st) == 0 && lstat(path, &now) == 0 && st.st_dev == now.st_dev &&
	    st.st_ino == now.st_ino;
}

static int
check(int fd, const char *path, struct koda_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "examine '%s'", path);
	if (st.st_uid != geteuid())
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%s' is koda-sandbox's own directory and belongs to another user: set XDG_STATE_HOME to a "
		    "directory of your own",
		    path);
	if ((st.st_mode & 022) != 0)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%s' is koda-sandbox's own directory and other users may write there: run "
		    "chmod 700 on it",
		    path);
	return 0;
}

static int
open_held(struct state *s, const char *path, struct koda_error *err)
{
	s->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%s' must be koda-sandbox's own directory, but is not a directory: move "
		    "it away",
		    path);
	if (s->fd < 0)
		return 0;
	if (check(s->fd, path, err) < 0) {
		close_at(&s->fd);
		s->fd = -1;
		return -1;
	}
	s->locked = lock(s->fd);
	if (state_is_there(s->fd, path))
		return 1;
	close_at(&s->fd);
	s->fd = -1;
	errno = ENOENT;
	return 0;
}

static void
mark_made(const struct state *s, const bool made[MADE_MAX + 1])
{
	char name[32];

	for (int i = 1; i <= MADE_MAX; i++) {
		if (!made[i])
			continue;
		snprintf(name, sizeof(name), MADE_PREFIX "%d", i);
		close(openat(s->fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
	}
}

int
state_hold(struct state *s, const char *path, struct koda_error *err)
{
	bool made[MADE_MAX + 1] = { false };
	int r = 0;

	err_clear(err);
	*s = (struct state)STATE_NONE;
	for (int i = 0; i < TRIES && r == 0; i++) {
		if (make(path, made) < 0 && errno != ENOENT)
			break;
		r = open_held(s, path, err);
		if (r == 0 && errno != ENOENT)
			break;
	}
	if (r < 0)
		return -1;
	if (r == 0) {
		err_set(err, KODA_IO, errno, "make '%s'", path);
		return 0;
	}
	mark_made(s, made);
	if (!s->locked)
		err_set(err, KODA_IO, 0, "another process holds the lock of '%s'", path);
	return 1;
}

int
state_look(struct state *s, const char *path, struct koda_error *err)
{
	int r;

	*s = (struct state)STATE_NONE;
	r = open_held(s, path, err);
	if (r == 0 && errno != ENOENT)
		return err_set(err, KODA_IO, errno, "open '%s'", path);
	return r;
}

/* ---- removing it ---- */

/* Removes every empty directory in the named directory, and that directory too if nothing is left
 * in it. */
static void
remove_empty(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (d == NULL) {
		close_at(&fd);
		return;
	}
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	closedir(d);
	unlinkat(dir, name, AT_REMOVEDIR);
}

/* Returns true if it contains nothing but marks. */
static bool
is_done(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	bool done = d != NULL;

	while (done && (e = readdir(d)) != NULL)
		done = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    strncmp(e->d_name, MADE_PREFIX, strlen(MADE_PREFIX)) == 0;
	if (d != NULL)
		closedir(d);
	else
		close_at(&copy);
	return done;
}

static void
remove_all(int fd, const char *path)
{
	cleanup_free char *part = strdup(path);
	bool made[MADE_MAX + 1] = { false };
	char name[32];

	for (int i = 1; i <= MADE_MAX; i++) {
		snprintf(name, sizeof(name), MADE_PREFIX "%d", i);
		made[i] = unlinkat(fd, name, 0) == 0;
	}
	if (part == NULL || rmdir(part) < 0)
		return;
	for (int i = 1; i <= MADE_MAX && made[i]; i++) {
		*strrchr(part, '/') = '\0';
		if (part[0] == '\0' || rmdir(part) < 0)
			return;
	}
}

void
state_let_go(struct state *s, const char *path)
{
	/* A process that comes now waits for the lock, and then sees that the path is a different
	 * directory. */
	if (s->fd >= 0 && s->locked && flock(s->fd, LOCK_EX | LOCK_NB) == 0 &&
	    state_is_there(s->fd, path)) {
		remove_empty(s->fd, QUARANTINE);
		remove_empty(s->fd, JOURNAL);
		remove_empty(s->fd, HISTORY);
		unlinkat(s->fd, CACHES, AT_REMOVEDIR);
		if (is_done(s->fd))
			remove_all(s->fd, path);
	}
	close_at(&s->fd);
	*s = (struct state)STATE_NONE;
}

/* ---- its content ---- */

static int
open_in(int dir, const char *name, bool make_it)
{
	struct stat st;
	int fd;

	if (make_it && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid())) {
		close_at(&fd);
		errno = EPERM;
		return -1;
	}
	return fd;
}

int
state_quarantines(const struct state *s, bool make_it)
{
	return open_in(s->fd, QUARANTINE, make_it);
}

int
state_quarantine(const struct state *s, const char *name, bool make_it)
{
	cleanup_close int all = state_quarantines(s, make_it);

	return all < 0 ? -1 : open_in(all, name, make_it);
}

int
state_journal(const struct state *s, bool make_it)
{
	return open_in(s->fd, JOURNAL, make_it);
}

int
state_open_directory(const char *path, struct koda_error *err)
{
	int fd = open_plain(AT_FDCWD, path, O_PATH);

	if (fd < 0)
		err_set(err, errno == ENOSYS ? KODA_UNSUPPORTED : KODA_IO, errno,
		    "open '%s', which commands may write", path);
	return fd;
}
