/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"
#include "worker/scan/followed.h"
#include "worker/scan/gitdir.h"
#include "worker/scan/gitindex.h"
#include "worker/scan/gitstate.h"
#include "worker/scan/plant.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/worktree.h"

struct live_repo {
	char *dir; /* the git directory, canonical */
	/* The directory that its index describes, canonical. NULL: none is known. */
	char *worktree;
	struct stamp index;
	bool unreadable;
};

struct live {
	struct live_repo *repo;
	size_t n_repos, repos_size, next_repo;
	char **link; /* directories in which a repository would be live */
	size_t n_links, links_size, next_link;
	size_t next_target;
	bool too_many;
};

struct live *
live_new(void)
{
	return calloc(1, sizeof(struct live));
}

void
live_free(struct live *live)
{
	if (live == NULL)
		return;
	for (size_t i = 0; i < live->n_repos; i++) {
		free(live->repo[i].dir);
		free(live->repo[i].worktree);
	}
	for (size_t i = 0; i < live->n_links; i++)
		free(live->link[i]);
	free(live->repo);
	free(live->link);
	free(live);
}

/* ---- known repositories and links ---- */

static void
add_link(struct scan *sc, struct live *live, const char *path)
{
	for (size_t i = 0; i < live->n_links; i++) {
		if (strcmp(live->link[i], path) == 0)
			return;
	}
	if (!scan_covers(sc, path))
		return;
	if (live->n_links == LIVE_LINKS_MAX ||
	    scan_grow(&live->link, live->n_links, &live->links_size, sizeof(*live->link)) < 0) {
		live->too_many = true;
		return;
	}
	live->link[live->n_links] = strdup(path);
	if (live->link[live->n_links] == NULL)
		live->too_many = true;
	else
		live->n_links++;
}

static struct live_repo *
repo_at(struct live *live, const char *dir)
{
	for (size_t i = 0; i < live->n_repos; i++) {
		if (strcmp(live->repo[i].dir, dir) == 0)
			return &live->repo[i];
	}
	return NULL;
}

static void
add_repo(struct live *live, const char *dir, const char *worktree)
{
	struct live_repo r = { 0 };

	if (repo_at(live, dir) != NULL)
		return;
	if (live->n_repos == LIVE_REPOS_MAX ||
	    scan_grow(&live->repo, live->n_repos, &live->repos_size, sizeof(r)) < 0) {
		live->too_many = true;
		return;
	}
	r.dir = strdup(dir);
	r.worktree = worktree != NULL ? strdup(worktree) : NULL;
	if (r.dir == NULL || (worktree != NULL && r.worktree == NULL)) {
		free(r.dir);
		live->too_many = true;
		return;
	}
	live->repo[live->n_repos++] = r;
}

void
live_add(struct scan *sc, struct live *live, const char *git_dir)
{
	cleanup_close int fd = resolve_canonical_dir(sc->res, git_dir, strlen(git_dir));
	cleanup_free char *worktree = fd < 0 ? NULL : worktree_of(sc, fd, git_dir);

	if (fd >= 0)
		add_repo(live, git_dir, worktree);
}

void
live_came(struct scan *sc, struct live *live, const char *dir, int dir_fd)
{
	if (has_name(dir_fd, ".git"))
		add_link(sc, live, dir);
	if (has_git_shape(dir_fd))
		add_repo(live, dir, NULL);
}

void
live_add_above(struct scan *sc, struct live *live, const char *root)
{
	char path[PATH_LEN_MAX + 8];

	/* The user's shell, and so git, runs in it. */
	add_link(sc, live, root);
	for (size_t len = strlen(root); len > 0;) {
		cleanup_close int fd = -1;
		cleanup_free char *target = NULL;
		struct stat st;

		while (len > 0 && root[len - 1] != '/')
			len--;
		len = len > 0 ? len - 1 : 0;
		fd = resolve_canonical_dir(sc->res, root, len);
		if (fd < 0 || fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		snprintf(path, sizeof(path), "%.*s", (int)len, root);
		target = S_ISREG(st.st_mode) ? worktree_git_dir(sc, fd, path) : NULL;
		strcat(path, "/.git");
		live_add(sc, live, target != NULL ? target : path);
	}
}

/* ---- indexes ---- */

struct links_reading {
	struct scan *sc;
	struct live *live;
	const struct live_repo *repo;
	bool unclear;
};

static void
on_entry(void *data, const struct gitindex_entry *e)
{
	struct links_reading *r = data;
	char path[PATH_LEN_MAX + 1];
	int n;

	if (!e->link || r->repo->worktree == NULL)
		return;
	n = snprintf(path, sizeof(path), "%s/%s", r->repo->worktree, e->path);
	/* An entry without a path stands for one of a shared index, and only git knows which. */
	if (!gitstate_is_path(e->path) || n < 0 || (size_t)n >= sizeof(path))
		r->unclear = true;
	else
		add_link(r->sc, r->live, path);
}

/* Reads the rest of a split index. */
static bool
read_shared(struct links_reading *r, int dir_fd, const struct gitindex_base *base)
{
	char name[sizeof("sharedindex.") + 64] = "sharedindex.";
	struct gitindex_base none = { 0 };
	struct stat st;
	size_t len;
	cleanup_free char *text = NULL;

	hex_put(name + strlen(name), base->name, base->len);
	text = plant_read(dir_fd, name, GITINDEX_BYTES_MAX, &st, &len);
	return text != NULL &&
	    gitindex_parse((const uint8_t *)text, len, on_entry, r, &none) == 0 && none.len == 0;
}

/* Reads the repository's index, if it has changed since the last time. */
static void
read_index(struct scan *sc, struct live *live, size_t i)
{
	struct live_repo *repo = &live->repo[i];
	struct links_reading r = { sc, live, repo, false };
	struct gitindex_base base = { 0 };
	cleanup_close int fd = resolve_canonical_dir(sc->res, repo->dir, strlen(repo->dir));
	cleanup_free char *text = NULL;
	struct stamp stamp = { 0 };
	struct stat st;
	size_t len;

	if (fd >= 0 && fstatat(fd, "index", &st, AT_SYMLINK_NOFOLLOW) == 0)
		stamp_of(&st, &stamp);
	if (same_stamp(WHAT_CONFIG, &stamp, &repo->index))
		return;
	repo->index = stamp;
	repo->unreadable = false;
	if (stamp.ino == 0)
		return;
	text = plant_read(fd, "index", GITINDEX_BYTES_MAX, &st, &len);
	if (text == NULL && errno == ENOENT)
		return;
	r.unclear = text == NULL ||
	    gitindex_parse((const uint8_t *)text, len, on_entry, &r, &base) < 0 ||
	    (base.len > 0 && !read_shared(&r, fd, &base));
	/* Adding links or repositories may have moved the array. */
	live->repo[i].unreadable = r.unclear;
}

/* ---- looking ---- */

/* Judges what makes git run something as soon as it opens the repository. */
static void
judge_git_dir(struct scan *sc, struct live *live, const char *dir)
{
	static const struct {
		const char *name;
		enum what what;
	} names[] = {
		{ "config", WHAT_CONFIG },
		{ "config.worktree", WHAT_CONFIG },
		{ "hooks", WHAT_HOOKS },
		{ "commondir", WHAT_COMMONDIR },
	};
	cleanup_close int held = resolve_canonical_dir(sc->res, dir, strlen(dir));
	cleanup_close int fd =
	    held < 0 ? -1 : openat(held, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[PATH_LEN_MAX + 32];

	for (size_t i = 0; fd >= 0 && i < N_ELEMENTS(names); i++) {
		const struct known *k;

		if (!has_name(fd, names[i].name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, names[i].name);
		k = known_at(sc, path);
		/* If it is mounted, only a process outside can change it, and the full comparison
		 * reports that. */
		if (strlen(path) <= PATH_LEN_MAX && (k == NULL || !k->sealed))
			found(sc, names[i].what, fd, path, names[i].name);
	}
	if (fd >= 0)
		followed_look_live(sc, fd, dir);
	/* A linked worktree uses the configuration and hooks of its repository, whatever else is
	 * missing there. */
	if (fd >= 0 && gitdir_of_worktree(dir, path) && has_name(fd, "commondir") &&
	    scan_covers(sc, path) && repo_at(live, path) == NULL)
		live_add(sc, live, path);
}

/* Judges a repository in a directory in which the host's git would use it. */
static void
look_at_link(struct scan *sc, struct live *live, const char *dir)
{
	cleanup_close int held = resolve_canonical_dir(sc->res, dir, strlen(dir));
	cleanup_close int fd = -1;
	cleanup_free char *target = NULL;
	char path[PATH_LEN_MAX + 8];
	const struct known *k;
	struct stat st;

	if (held < 0 || fstatat(held, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	snprintf(path, sizeof(path), "%s/.git", dir);
	k = known_at(sc, path);
	if (S_ISDIR(st.st_mode)) {
		judge_git_dir(sc, live, path);
		add_repo(live, path, dir);
		return;
	}
	fd = openat(held, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (k == NULL || !k->sealed))
		found(sc, WHAT_GITFILE, fd, path, ".git");
	target = worktree_git_dir(sc, held, dir);
	if (target != NULL && scan_covers(sc, target)) {
		judge_git_dir(sc, live, target);
		add_repo(live, target, dir);
	}
}

/* Judges a path that an existing configuration names, or the first component on the way to it that
 * is not a directory: either may have appeared since. */
static void
look_at_target(struct scan *sc, const char *target)
{
	char path[PATH_LEN_MAX + 1];
	cleanup_close int held = -1, fd = -1;
	const struct known *k;
	bool whole = true;
	struct stat st;
	char *slash;

	if (strlen(target) >= sizeof(path) || !scan_covers(sc, target))
		return;
	strcpy(path, target);
	for (;;) {
		slash = strrchr(path, '/');
		held = resolve_canonical_dir(sc->res, path, (size_t)(slash - path));
		if (held >= 0)
			break;
		*slash = '\0';
		whole = false;
		if (!scan_covers(sc, path))
			return;
	}
	if (fstatat(held, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!whole && S_ISDIR(st.st_mode)))
		return;
	fd = openat(held, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	k = known_at(sc, path);
	if (fd >= 0 && (k == NULL || !k->sealed))
		found(sc, WHAT_TARGET, fd, path, slash + 1);
}

int
live_look(struct scan *sc, struct live *live)
{
	bool unreadable = live->too_many;

	for (size_t n = 0; n < live->n_repos && n < LIVE_LOOK_MAX; n++) {
		const size_t i = live->next_repo++ % live->n_repos;

		read_index(sc, live, i);
		if (scan_covers(sc, live->repo[i].dir))
			judge_git_dir(sc, live, live->repo[i].dir);
		unreadable |= live->repo[i].unreadable;
	}
	for (size_t n = 0; n < live->n_links && n < LIVE_LOOK_MAX; n++)
		look_at_link(sc, live, live->link[live->next_link++ % live->n_links]);
	for (size_t n = 0; n < sc->n_guards && n < LIVE_LOOK_MAX; n++) {
		const struct guard *g = &sc->guard[live->next_target++ % sc->n_guards];

		if (g->what == WHAT_TARGET)
			look_at_target(sc, g->path);
	}
	return unreadable;
}
