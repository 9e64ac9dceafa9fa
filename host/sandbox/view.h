/*
 * What a command of a slot sees, as a plan: a pure function of the policy, the mode, the root, the
 * home and the places that a worker found (Scan). It has two parts, because two programs carry it
 * out:
 *
 *  - the coarse view, which bwrap builds (host/sandbox/bwrap.h): everything read-only, private
 *    temporary directories, and the directories in which commands may write;
 *  - the plan, which stage2 mounts by descriptor on top of it: pins, read-only places, hidden
 *    places and their holes.
 *
 * shared/rules/access has the last word: if the plan leaves a path writable, access_judge() would
 * allow writing it; if the plan shows a path, access_judge() would allow reading it. One table of
 * cases tests both. They differ on purpose in
 *  - the caches and the private temporary directories, which commands may write and file operations
 *    may not: what is written there does not reach the host;
 *  - holes of deny_read: commands can only read there;
 *  - `dir` of a protected `dir/name`: a mount of its own, so a command can neither move nor replace
 *    it, unless the name is protected at any depth and does not exist there;
 *  - git directories by name and shape: the plan contains those that exist (Scan); the comparison
 *    finds later ones.
 */
#ifndef KODA_HOST_SANDBOX_VIEW_H
#define KODA_HOST_SANDBOX_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "shared/rules/policy.h"

struct view_place {
	enum view_place_kind {
		VIEW_PLACE_GIT_DIR,
		VIEW_PLACE_PROTECTED,
		VIEW_PLACE_RULE,
		VIEW_PLACE_NAME,
	} kind;
	const char *path;
	dev_t dev;
	ino_t ino;
	bool directory;
};

struct view_input {
	const struct policy *policy;
	enum koda_mode mode;
	const char *root, *home; /* canonical; home is "" if there is none */
	/* koda's own directory, whether it exists or not; NULL: there is no place for it. */
	const char *state;
	/* Caches that exist, canonical (host/caches/caches). */
	const char *const *caches;
	size_t n_caches;
	bool spare; /* commands get caches that the host does not have */
	/* What commands may write beyond allow_write: a worktree's git directory. */
	const char *const *also;
	size_t n_also;
	/* A writable directory that is a git directory, or NULL: the root, or the git directory of
	 * the repository that the root is a linked worktree of (one of `also`). */
	const char *git_dir;
	const struct view_place *places;
	size_t n_places;
};

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

/* Returns 0 with *ret, which the caller owns, or -1 with *err set. */
int view_plan(const struct view_input *in, struct view *ret, struct koda_error *err);
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

#endif
