/*
 * The ignore files that count in one place of the tree: those of each directory from there up, nearest first. All .rgignore
 * come before all .ignore, then .gitignore, then .git/info/exclude, then the user's own file, as in ripgrep. What belongs to
 * git counts in work trees, and does not reach into one from outside. Pure.
 */
#ifndef KODA_SEARCH_CHAIN_H
#define KODA_SEARCH_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "search/ignore.h"

/* By precedence. */
enum chain_kind {
	CHAIN_RGIGNORE,
	CHAIN_IGNORE,
	CHAIN_GITIGNORE, /* from here on they belong to git */
	CHAIN_EXCLUDE,
	CHAIN_KINDS,
};

/* Where the chain was: to go back to when a directory is left. */
struct chain_mark {
	size_t n[CHAIN_KINDS];
	size_t floor[CHAIN_KINDS]; /* what is below belongs to a work tree further out */
	size_t rules;
	size_t top; /* where in a path the innermost work tree begins */
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

/* top: where in a path the place begins. in_git: count git's rules, wherever this is. */
void chain_init(struct chain *chain, size_t top, bool in_git, size_t rules_max);
void chain_done(struct chain *chain);

/* A directory whose names begin at base in a path. Its rules are added after that. */
struct chain_mark chain_enter(struct chain *chain, size_t base, bool is_worktree);
void chain_leave(struct chain *chain, const struct chain_mark *mark);
bool chain_wants(const struct chain *chain, enum chain_kind kind);

/* 0, or -1 with errno: ENOMEM, or E2BIG when there would be more than rules_max, and then none of these counts. */
int chain_add(struct chain *chain, enum chain_kind kind, size_t base, const char *text, size_t len);

/* Does nothing in it say anything, whatever the name? global: the user's own file, or NULL. */
bool chain_is_empty(const struct chain *chain, const struct ignore *global);
enum ignore_verdict chain_judge(const struct chain *chain, const struct ignore *global,
    const struct ignore_name *name);

#endif
