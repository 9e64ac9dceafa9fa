/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitvar.h"
#include "worker/scan/plant.h"
#include "worker/scan/scan_known.h"

/* git's own limit. */
#define INCLUDE_DEPTH_MAX 10
/* A gitfile or a commondir contains one path. */
#define POINTER_MAX (2 * PATH_LEN_MAX)

struct target_search {
	struct scan *sc;
	const char *worktree; /* git's working directory when it runs what is named */
	unsigned depth;
};

/* Makes the absolute path of what a configuration names, relative to dir. Returns false if it
 * names nothing that could be looked up. */
static bool
place_text(const struct target_search *f, const char *dir, const char *to, char *ret, size_t size)
{
	const char *home = scan_who(f->sc)->home;
	int n;

	if (to[0] == '/')
		n = snprintf(ret, size, "%s", to);
	else if (to[0] == '~' && to[1] == '/' && home != NULL && home[0] == '/')
		n = snprintf(ret, size, "%s%s", home, to + 1);
	else if (to[0] == '~' || to[0] == '%')
		return false;
	else
		n = snprintf(ret, size, "%s/%s", dir, to);
	return n > 0 && (size_t)n < size && (size_t)n <= PATH_LEN_MAX;
}

static bool
find_place(const struct target_search *f, const char *dir, const char *to, struct place *at)
{
	char text[2 * PATH_LEN_MAX + 2];
	struct koda_error err;

	return place_text(f, dir, to, text, sizeof(text)) &&
	    resolve(scan_resolver(f->sc), (const uint8_t *)text, strlen(text), 0, at, &err) == 0;
}

static void
add_place(const struct target_search *f, const struct place *at)
{
	for (size_t i = 0; i < at->n_hops; i++)
		scan_add_target(f->sc, WHAT_TARGET, at->hop[i], true);
	scan_add_target(f->sc, WHAT_TARGET, at->path, false);
}

static void
add_program(const struct target_search *f, const char *line)
{
	char word[PATH_LEN_MAX + 1];

	while (gitvar_word(&line, word, sizeof(word))) {
		cleanup(place_done) struct place at;

		place_init(&at);
		/* A word with neither is looked up in PATH, or is not a file at all. */
		if (strpbrk(word, "/.") == NULL || !find_place(f, f->worktree, word, &at))
			continue;
		/* A missing file is guarded if the word looks like a path: other words can be
		 * anything. */
		if (at.target_fd >= 0 ? S_ISREG(at.st.st_mode) : strchr(word, '/') != NULL)
			add_place(f, &at);
	}
}

static void find_in_file(struct target_search *f, const char *dir, int dir_fd, const char *name);

static void
add_include(struct target_search *f, const char *dir, const char *to)
{
	cleanup(place_done) struct place at;
	char up[PATH_LEN_MAX + 1];
	size_t n;
	cleanup_close int fd = -1;

	place_init(&at);
	if (!find_place(f, dir, to, &at) || strlen(at.path) < 2)
		return;
	add_place(f, &at);
	if (at.target_fd < 0 || f->depth >= INCLUDE_DEPTH_MAX)
		return;
	n = (size_t)(strrchr(at.path, '/') - at.path);
	memcpy(up, at.path, n);
	up[n] = '\0';
	fd = resolve_canonical_dir(scan_resolver(f->sc), up, n);
	f->depth++;
	if (fd >= 0)
		find_in_file(f, up, fd, at.path + n + 1);
	f->depth--;
}

/* Finds the targets in an existing configuration, anywhere. dir: canonical path. */
static void
find_in_file(struct target_search *f, const char *dir, int dir_fd, const char *name)
{
	struct gitconfig c;
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(dir_fd, name, GITCONFIG_BYTES_MAX, &st, &len);

	if (text == NULL || gitconfig_parse(text, len, &c) < 0)
		return;
	for (size_t i = 0; i < c.n; i++) {
		const char *value = c.var[i].value;
		cleanup(place_done) struct place at;

		place_init(&at);
		switch (gitvar_names(&c.var[i])) {
		case GITVAR_NAMES_NOTHING:
			break;
		case GITVAR_NAMES_FILE:
			add_include(f, dir, value);
			break;
		case GITVAR_NAMES_PATH:
			if (find_place(f, f->worktree, value, &at))
				add_place(f, &at);
			break;
		case GITVAR_NAMES_PROGRAM:
			add_program(f, value);
			break;
		}
	}
	gitconfig_done(&c);
}

/* Like find_in_file(), for a path that may lead through links, as the user's own configuration
 * may. */
static void
find_in(struct target_search *f, const char *path)
{
	cleanup(place_done) struct place at;
	char dir[PATH_LEN_MAX + 1];
	cleanup_close int fd = -1;
	size_t n;

	place_init(&at);
	if (!find_place(f, "/", path, &at) || at.target_fd < 0)
		return;
	n = (size_t)(strrchr(at.path, '/') - at.path);
	memcpy(dir, at.path, n);
	dir[n] = '\0';
	fd = resolve_canonical_dir(scan_resolver(f->sc), dir, n);
	if (fd >= 0)
		find_in_file(f, dir, fd, at.path + n + 1);
}

/* These apply to every repository: a relative core.hooksPath means a directory in each. */
static void
find_in_users(struct target_search *f)
{
	static const char *const files[] = { "/etc/gitconfig", "~/.gitconfig",
		"~/.config/git/config" };

	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		find_in(f, files[i]);
}

/* Follows the one line of a file that names a directory. */
static bool
follow(const struct target_search *f, const char *dir, int dir_fd, const char *name, bool gitfile,
    struct place *ret)
{
	struct stat st;
	size_t len, start = 0, n;
	cleanup_free char *text = plant_read(dir_fd, name, POINTER_MAX, &st, &len);

	if (text == NULL)
		return false;
	n = strcspn(text, "\r\n");
	if (gitfile && !gitdir_of_gitfile(text, len, &start, &n))
		return false;
	text[start + n] = '\0';
	if (n == 0 || !find_place(f, dir, text + start, ret) || ret->target_fd < 0 ||
	    !S_ISDIR(ret->st.st_mode))
		return false;
	for (size_t i = 0; i < ret->n_hops; i++)
		scan_add_target(f->sc, WHAT_TARGET, ret->hop[i], true);
	return true;
}

static void
find_by_gitfile(struct target_search *f, const char *name)
{
	cleanup(place_done) struct place gitdir, common;
	const char *dir = f->worktree;
	cleanup_close int fd = resolve_canonical_dir(scan_resolver(f->sc), dir, strlen(dir));

	place_init(&gitdir);
	place_init(&common);
	if (fd < 0 || !follow(f, dir, fd, name, true, &gitdir))
		return;
	find_in_file(f, gitdir.path, gitdir.target_fd, "config");
	find_in_file(f, gitdir.path, gitdir.target_fd, "config.worktree");
	if (follow(f, gitdir.path, gitdir.target_fd, "commondir", false, &common))
		find_in_file(f, common.path, common.target_fd, "config");
}

void
target_find(struct scan *sc, const char *path, bool gitfile)
{
	struct target_search f = { .sc = sc };
	const char *name = strrchr(path, '/') + 1;
	const bool config = access_name_of(name) == ACCESS_NAME_CONFIG;
	char dir[PATH_LEN_MAX + 1], worktree[PATH_LEN_MAX + 1];
	size_t n = (size_t)(name - path) - 1;
	cleanup_close int fd = -1;

	if (access_name_of(name) == ACCESS_NAME_KODA)
		return;
	/* dir is the git directory, for a gitfile the directory that contains it, which is a
	 * worktree. */
	snprintf(dir, sizeof(dir), "%s", path);
	if (gitfile || config)
		dir[n] = '\0';
	snprintf(worktree, sizeof(worktree), "%s", dir);
	if (!gitfile && strrchr(dir, '/') != NULL &&
	    access_name_of(strrchr(dir, '/') + 1) == ACCESS_NAME_GIT)
		*strrchr(worktree, '/') = '\0';
	f.worktree = worktree;
	if (gitfile)
		find_by_gitfile(&f, name);
	if (!config) {
		find_in_users(&f);
		return;
	}
	fd = resolve_canonical_dir(scan_resolver(sc), dir, strlen(dir));
	if (fd >= 0)
		find_in_file(&f, dir, fd, name);
}
