/*
 * What a command of a slot sees, as a plan: a pure function of the policy, the mode, the root, the home and the
 * places that a worker found (Scan). Two parts, because two programs carry it out:
 *
 *  - the coarse view, which bwrap builds (host/sandbox/bwrap.h): everything read-only, private temporary directories, and
 *    the directories in which commands may write;
 *  - the plan, which stage2 mounts by descriptor on top of it: pins, read-only places, hidden places and their holes.
 *
 * Who decides is shared/rules/access: a path that the plan leaves writable is one that access_judge would let be written.
 * One table of cases tests both. They differ on purpose in
 *  - the caches and the private temporary directories, which commands write and file operations do not: what is written
 *    there does not reach the host;
 *  - holes of deny_read: commands read there only;
 *  - `dir` of a protected `dir/name`: a mount of its own, so a command can neither move nor replace it, unless the
 *    name is protected at any depth and is not there;
 *  - git directories by name and shape: those that are there (Scan) are in the plan, later ones are the comparison's.
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
	const char *root, *home; /* canonical; home "" if there is none */
	const char *state; /* koda's own directory, there or not; NULL: there is no place for it */
	/* Caches that exist, canonical (host/caches/caches). */
	const char *const *caches;
	size_t n_caches;
	bool spare; /* there are caches that the host does not have, and commands are to have */
	/* What commands write beside allow_write: a worktree's git directory. */
	const char *const *also;
	size_t n_also;
	/* A writable directory that is a git directory: the root, or that of the repository that the root is a linked
	 * worktree of (one of `also`). Or NULL. */
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
	dev_t dev; /* 0: whatever is there */
	ino_t ino;
	const char *why; /* the rule's name, as in errors (access_rule_name); static */
	/* A git directory: commands make regular files and directories in it, and nothing else. */
	bool plain;
	/* Of VIEW_HIDE: no command can write a directory on the way to it, so it stays hidden when it does not exist yet. */
	bool outside;
};

struct view {
	char **writable; /* canonical, none inside another; outermost first */
	size_t n_writable;
	/* Of them, or inside of them: what a command changes there goes to the project's own layer, and not to the host's. */
	char **cache;
	size_t n_caches;
	const char *spare; /* what the caches are in that the host does not have, or NULL; static */
	/* Nothing in them may be written, but they have to be seen although a private file system covers them. */
	char **shown;
	size_t n_shown;
	struct view_mount *mount; /* what contains comes first */
	size_t n_mounts;
	const char *otherwise; /* the rule because of which all else is not written; static */
};

/* 0 with *ret the caller's, or -1 with *err set. */
int view_plan(const struct view_input *in, struct view *ret, struct koda_error *err);
void view_done(struct view *v);

/* May a command change what is at path, by the plan alone? (path in a private file system: true.) For `explain`,
 * violations and the table of cases. ret_why may be NULL. */
bool view_writes(const struct view *v, const char *path, const char **ret_why);
bool view_shows(const struct view *v, const char *path, const char **ret_why);
/* Is that a cache of the view, or inside one? */
bool view_is_cached(const struct view *v, const char *path);
/* Is that one of `writable` whose content is the host's? */
bool view_binds(const struct view *v, const char *dir);
/* Is that a directory (if it is one) that is there for commands to write in? Of the private ones: themselves only. For
 * TMPDIR and PATH (host/command/environment). */
bool view_has(const struct view *v, const char *path);

#endif
