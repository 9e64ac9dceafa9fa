/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the view of a slot: a pure function of the policy, the mode, the root, the home and the
 * places that a worker found (Scan).
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
#ifndef KODA_HOST_SANDBOX_VIEW_PLAN_H
#define KODA_HOST_SANDBOX_VIEW_PLAN_H

#include "host/sandbox/view.h"
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
	/* Changes go to a draft: nothing in a writable directory has to be protected from commands,
	 * because what the policy refuses is refused when the draft is applied. */
	bool draft;
	/* What commands may write beyond allow_write: a worktree's git directory. */
	const char *const *also;
	size_t n_also;
	/* A writable directory that is a git directory, or NULL: the root, or the git directory of
	 * the repository that the root is a linked worktree of (one of `also`). */
	const char *git_dir;
	const struct view_place *places;
	size_t n_places;
};

/* Returns 0 with *ret, which the caller owns, or -1 with *err set. */
int view_plan(const struct view_input *in, struct view *ret, struct koda_error *err);

#endif
