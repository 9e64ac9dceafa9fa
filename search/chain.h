/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ignore files that apply at one place of the tree: those of its directory and of each
 * directory above, nearest first. All .rgignore come before all .ignore, then .gitignore, then
 * .git/info/exclude, then the user's own file, as in ripgrep. git's files apply only in work trees,
 * and those outside of a work tree do not apply inside it. Pure.
 */
#ifndef KODA_SEARCH_CHAIN_H
#define KODA_SEARCH_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "search/ignore.h"

/* In order of precedence. */
enum chain_kind {
	CHAIN_RGIGNORE,
	CHAIN_IGNORE,
	CHAIN_GITIGNORE, /* this one and the later ones belong to git */
	CHAIN_EXCLUDE,
	CHAIN_KINDS,
};

/* A state of the chain, restored when a directory is left. */
struct chain_mark {
	size_t n[CHAIN_KINDS];
	size_t floor[CHAIN_KINDS]; /* entries below this index belong to an outer work tree */
	size_t rules;
	size_t top; /* offset in a path at which the innermost work tree begins */
	bool in_git;
};

struct chain_link {
	struct ignore *rules;
	size_t base;
};

struct chain {
	struct chain_link *link[CHAIN_KINDS];
	size_t size[CHAIN_KINDS];
	struct chain_mark now;
	size_t rules_max;
};

/* top: the offset in a path at which the place begins. in_git: apply git's rules, wherever the
 * place is. */
void chain_init(struct chain *chain, size_t top, bool in_git, size_t rules_max);
void chain_done(struct chain *chain);

/* Enters a directory whose names begin at offset base in a path; its rules are added after that.
 * Returns the state to pass to chain_leave(). */
struct chain_mark chain_enter(struct chain *chain, size_t base, bool is_worktree);
void chain_leave(struct chain *chain, const struct chain_mark *mark);
bool chain_wants(const struct chain *chain, enum chain_kind kind);

/* Adds the rules of an ignore file. Returns 0, or -1 with errno: ENOMEM, or E2BIG if there would
 * be more than rules_max rules; then none of the file's rules apply. */
int chain_add(struct chain *chain, enum chain_kind kind, size_t base, const char *text, size_t len);

/* Returns whether no rule can apply, whatever the name. global: the user's own file, or NULL. */
bool chain_is_empty(const struct chain *chain, const struct ignore *global);
enum ignore_verdict chain_judge(const struct chain *chain, const struct ignore *global,
    const struct ignore_name *name);

#endif
