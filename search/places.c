/* SPDX-License-Identifier: Apache-2.0 */
#include "search/places.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "worker/say.h"
#include "worker/scan/gitconfig.h"

/* ---- small files outside of the places ---- */

/* Returns the content of a regular file, NUL-terminated, the caller's; NULL if it is not one, is
 * too large, or cannot be read: then its rules do not apply, as if it did not exist. */
static char *
read_small(int fd, size_t max, size_t *ret_len)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len = 0;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	while (text != NULL && len < (size_t)st.st_size) {
		ssize_t n = pread(fd, text + len, (size_t)st.st_size - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (text == NULL)
		return NULL;
	text[len] = '\0';
	*ret_len = len;
	return take_ptr(&text);
}

static bool
may_read(const struct session *ses, const char *dir, const char *name)
{
	char path[PATH_LEN_MAX + 1];
	size_t n = strlen(dir) == 1 ? 0 : strlen(dir), k = strlen(name);

	if (n + 1 + k > PATH_LEN_MAX)
		return false;
	memcpy(path, dir, n);
	path[n] = '/';
	memcpy(path + n + 1, name, k + 1);
	return access_judge(&ses->who, ACCESS_OP_READ, path, NULL).allowed;
}

static char *
read_named(struct session *ses, int dir_fd, const char *dir, const char *name, size_t *ret_len)
{
	cleanup_close int fd = -1;

	if (!may_read(ses, dir, name))
		return NULL;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? NULL : read_small(fd, WALK_IGNORE_BYTES_MAX, ret_len);
}

/* Reads a file by its path, as an operation would: resolved and judged. */
static char *
read_path(struct session *ses, const char *path, size_t max, size_t *ret_len)
{
	cleanup(place_done) struct place at;
	cleanup_close int fd = -1;
	struct koda_error dropped;

	place_init(&at);
	if (session_place(ses, bytes_of(path, strlen(path)), 0, ACCESS_OP_READ, &at, &dropped) <
		0 ||
	    at.target_fd < 0 || !S_ISREG(at.st.st_mode))
		return NULL;
	fd = resolve_reopen(&ses->res, at.target_fd, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? NULL : read_small(fd, max, ret_len);
}

static char *
join(const char *dir, const char *name)
{
	size_t n = strlen(dir), k = strlen(name);
	char *path = malloc(n + 1 + k + 1);

	if (path == NULL)
		return NULL;
	memcpy(path, dir, n);
	path[n] = '/';
	memcpy(path + n + 1, name, k + 1);
	return path;
}

/* Returns core.excludesFile of a configuration as an absolute path, the caller's; NULL if it is
 * not set. */
static char *
excludes_file(const char *config, size_t len, const char *home)
{
	struct gitconfig c = { 0 };
	char *ret = NULL;

	if (gitconfig_parse(config, len, &c) < 0)
		return NULL;
	for (size_t i = 0; i < c.n; i++) {
		const struct gitconfig_var *v = &c.var[i];

		if (strcmp(v->section, "core") != 0 || v->subsection != NULL ||
		    strcmp(v->key, "excludesfile") != 0 || v->value == NULL)
			continue;
		/* The last one applies. */
		free(ret);
		ret = strncmp(v->value, "~/", 2) == 0 ? join(home, v->value + 2)
		    : v->value[0] == '/'              ? strdup(v->value)
						      : NULL;
	}
	gitconfig_done(&c);
	return ret;
}

/* Reads the user's own excludes file: the one that the user's configuration names, or git's
 * default. */
static void
read_global(struct session *ses, struct places *ret)
{
	static const char *const configs[] = { ".gitconfig", ".config/git/config" };
	cleanup_free char *path = NULL;

	if (ses->home[0] == '\0')
		return;
	for (size_t i = 0; i < N_ELEMENTS(configs) && path == NULL; i++) {
		cleanup_free char *file = join(ses->home, configs[i]);
		cleanup_free char *config = NULL;
		size_t len;

		if (file != NULL)
			config = read_path(ses, file, GITCONFIG_BYTES_MAX, &len);
		if (config != NULL)
			path = excludes_file(config, len, ses->home);
	}
	if (path == NULL)
		path = join(ses->home, ".config/git/ignore");
	if (path != NULL)
		ret->global = read_path(ses, path, WALK_IGNORE_BYTES_MAX, &ret->global_len);
}

/* ---- the directories above a place ---- */

static void
read_parent(struct session *ses, int fd, struct walk_parent *to, uint64_t flags)
{
	struct stat st;

	/* A place that deny_read excepts is below directories that must not be read. */
	to->is_worktree =
	    may_read(ses, to->path, ".git") && fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0;
	/* Its rules do not apply, but it still shows that the place is in a repository. */
	if ((flags & KODA_SEARCH_NO_PARENTS) != 0)
		return;
	if ((flags & KODA_SEARCH_NO_GITIGNORE) == 0)
		to->gitignore = read_named(ses, fd, to->path, ".gitignore", &to->gitignore_len);
	if ((flags & KODA_SEARCH_NO_DOT_IGNORE) == 0) {
		to->ignore = read_named(ses, fd, to->path, ".ignore", &to->ignore_len);
		to->rgignore = read_named(ses, fd, to->path, ".rgignore", &to->rgignore_len);
	}
	if ((flags & KODA_SEARCH_NO_EXCLUDE) == 0 && to->is_worktree && S_ISDIR(st.st_mode)) {
		cleanup_free char *info = join(to->path, ".git/info");
		cleanup_close int dir = -1;

		if (info != NULL)
			dir = resolve_canonical_dir(&ses->res, info, strlen(info));
		if (dir >= 0)
			to->exclude = read_named(ses, dir, info, "exclude", &to->exclude_len);
	}
}

static int
read_parents(struct session *ses, uint64_t flags, struct search_place *place,
    struct koda_error *err)
{
	size_t n = 0;

	for (const char *p = place->path; (p = strchr(p, '/')) != NULL; p++)
		n += p[1] != '\0';
	if (n == 0)
		return 0;
	place->parents = calloc(n, sizeof(*place->parents));
	if (place->parents == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "search");
	for (const char *p = place->path; place->n_parents < n; p = strchr(p + 1, '/')) {
		struct walk_parent *to = &place->parents[place->n_parents];
		size_t len = (size_t)(p - place->path);
		cleanup_close int fd = -1;

		to->path = len == 0 ? strdup("/") : strndup(place->path, len);
		if (to->path == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "search");
		place->n_parents++;
		fd = resolve_canonical_dir(&ses->res, place->path, len);
		if (fd >= 0)
			read_parent(ses, fd, to, flags);
		place->in_repository |= to->is_worktree;
	}
	return 0;
}

/* ---- the places ---- */

static int
open_place(struct session *ses, ProtobufCBinaryData path, struct search_place *ret,
    struct koda_error *err)
{
	cleanup(place_done) struct place at;
	struct statfs fs;
	bool is_dir;

	place_init(&at);
	if (session_place(ses, path, 0, ACCESS_OP_READ, &at, err) < 0)
		return -1;
	if (at.target_fd < 0)
		return say(err, KODA_IO, ENOENT, "search", at.path);
	is_dir = S_ISDIR(at.st.st_mode);
	if (!is_dir && !S_ISREG(at.st.st_mode))
		return say(err, KODA_INVALID, 0, "neither a file nor a directory:", at.path);
	if (session_verify_target(ses, &at, err) < 0)
		return -1;
	ret->fd = resolve_reopen(&ses->res, at.target_fd,
	    O_RDONLY | O_NOCTTY | O_NONBLOCK | (is_dir ? O_DIRECTORY : 0));
	if (ret->fd < 0)
		return say(err, KODA_IO, errno, "search", at.path);
	/* The judge knows proc by its usual path; in a chroot's tree it is mounted at another
	 * one. */
	if (fstatfs(ret->fd, &fs) < 0 || (unsigned long)fs.f_type == PROC_SUPER_MAGIC) {
		const struct access_verdict no = { false, ACCESS_RULE_PROCESS_WINDOW, NULL };

		close_at(&ret->fd);
		ret->fd = -1;
		return access_refuse(err, &ses->who, ACCESS_OP_READ, at.path, no);
	}
	ret->st = at.st;
	ret->path = strdup(at.path);
	return ret->path == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "search") : 0;
}

static int
add_place(struct session *ses, const Koda__Search *ask, ProtobufCBinaryData path,
    struct places *ret, struct koda_error *err)
{
	struct search_place *to = &ret->v[ret->n++];

	to->fd = -1;
	if (open_place(ses, path, to, &to->why) < 0) {
		if (ask->n_path > 1 && to->why.code != KODA_INTERNAL)
			return 0;
		*err = to->why;
		return -1;
	}
	return S_ISDIR(to->st.st_mode) ? read_parents(ses, ask->flags, to, err) : 0;
}

int
places_open(struct session *ses, const Koda__Search *ask, struct places *ret,
    struct koda_error *err)
{
	size_t n = ask->n_path > 0 ? ask->n_path : 1;

	*ret = (struct places){ .v = calloc(n, sizeof(*ret->v)) };
	if (ret->v == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "search");
	if (ask->n_path == 0 && add_place(ses, ask, bytes_of(".", 1), ret, err) < 0)
		return -1;
	for (size_t i = 0; i < ask->n_path; i++)
		if (add_place(ses, ask, ask->path[i], ret, err) < 0)
			return -1;
	if ((ask->flags & KODA_SEARCH_NO_GLOBAL) == 0)
		read_global(ses, ret);
	return 0;
}

void
places_done(struct places *places)
{
	for (size_t i = 0; i < places->n; i++) {
		struct search_place *at = &places->v[i];

		close_at(&at->fd);
		free(at->path);
		for (size_t k = 0; k < at->n_parents; k++) {
			const struct walk_parent *up = &at->parents[k];

			free((char *)(uintptr_t)up->path);
			free((char *)(uintptr_t)up->gitignore);
			free((char *)(uintptr_t)up->ignore);
			free((char *)(uintptr_t)up->rgignore);
			free((char *)(uintptr_t)up->exclude);
		}
		free(at->parents);
	}
	free(places->v);
	free(places->global);
	*places = (struct places){ 0 };
}

int
places_lock(const struct places *places, struct koda_error *err)
{
	cleanup_free int *fds = calloc(places->n + 1, sizeof(*fds));
	unsigned abi;
	size_t n = 0;

	if (fds == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "search");
	for (size_t i = 0; i < places->n; i++)
		if (places->v[i].fd >= 0)
			fds[n++] = places->v[i].fd;
	return lockdown_landlock_reading(LOCKDOWN_TRUNCATE, fds, n, lockdown_landlock_abi(), &abi,
	    err);
}
