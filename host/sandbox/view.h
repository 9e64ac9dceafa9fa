/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of a slot sees, as a plan (view_plan.h makes it), and questions about it. It has
 * two parts, because two programs carry it out:
 *
 *  - the coarse view, which bwrap builds (host/sandbox/bwrap.h): everything read-only, private
 *    temporary directories, and the directories in which commands may write;
 *  - the plan, which stage2 mounts by descriptor on top of it: pins, read-only places, hidden
 *    places and their holes.
 */
#ifndef KODA_HOST_SANDBOX_VIEW_H
#define KODA_HOST_SANDBOX_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum view_mount_kind {
	VIEW_PIN = 1, /* the numbers are those of proto/stage2.proto */
	VIEW_READ_ONLY = 2,
	VIEW_HIDE = 3,
	VIEW_HOLE = 4,
	VIEW_WRITABLE_HOLE = 5,
};

struct view_mount {
	enum view_mount_kind kind;
	char *path;
	dev_t dev; /* 0: whatever exists there */
	ino_t ino;
	const char *why; /* the rule's name, as in errors (access_rule_name); static */
	/* A git directory: commands may only make regular files and directories in it. */
	bool plain;
	/* For VIEW_HIDE: commands can write no directory on the way to it, so it stays hidden even
	 * if it does not exist yet. */
	bool outside;
};

struct view {
	char **writable; /* canonical, none inside another */
	size_t n_writable;
	/* Some of `writable`, or directories inside them: what a command changes there goes to the
	 * project's own layer, not to the host's directory. */
	char **cache;
	size_t n_caches;
	/* The directory for caches that the host does not have, or NULL; static. */
	const char *spare;
	/* Read-only directories that have to be visible although a private file system covers
	 * them. */
	char **shown;
	size_t n_shown;
	struct view_mount *mount; /* containing directories come first */
	size_t n_mounts;
	/* The rule because of which everything else cannot be written; static. */
	const char *otherwise;
};

void view_done(struct view *v);

/* May a command change, or read, what is at path, according to the plan alone? In a private file
 * system it may, but it cannot write in directories that lead to a bound place, nor in /run outside
 * the runtime directory and the directory for caches. For `explain`, violations and the table of
 * cases. ret_why may be NULL. */
bool view_writes(const struct view *v, const char *path, const char **ret_why);
bool view_shows(const struct view *v, const char *path, const char **ret_why);
/* Is path a cache of the view, or inside one? */
bool view_is_cached(const struct view *v, const char *path);
/* Is dir one of `writable` whose content is the host's? */
bool view_binds(const struct view *v, const char *dir);
/* Is path, if it is a directory at all, one that exists in the view for commands to write in?
 * Inside the private file systems nothing of the host exists: true only for those directories
 * themselves. For TMPDIR and PATH (host/command/environment). */
bool view_has(const struct view *v, const char *path);

/* Is the host's file at that path the one at the same path in the view? */
bool view_is_of_host(const struct view *v, const char *path);
/* Returns the private file system of a view that covers path, or NULL; static. */
const char *view_private_of(const char *path);
/* Returns the first of dirs that is path or contains it, or NULL. */
const char *view_dir_of(char *const *dirs, size_t n, const char *path);

#endif
