/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a walk selects: flags, globs, types, the user's own excludes file, compiled once and used
 * for all places of one search. The walk reads the fields. Pure.
 */
#ifndef KODA_SEARCH_WALK_RULES_H
#define KODA_SEARCH_WALK_RULES_H

#include <stddef.h>

#include "search/ignore.h"
#include "shared/base/err.h"

/* Rules of all ignore files that apply at one place of the tree. */
#define WALK_RULES_MAX 100000
/* Globs of one search, after brace expansion. Each may have to be compared with each name. */
#define WALK_GLOBS_MAX 10000

struct walk_rules {
	unsigned flags;
	unsigned max_depth;
	struct ignore *globs, *types, *global; /* NULL: none */
};

struct walk_rules_options {
	unsigned flags;           /* enum koda_search_flags; flags not for the walk are ignored */
	const char *const *globs; /* as in struct koda_search_options */
	size_t n_globs;
	const char *const *types, *const *types_not; /* names (shared/base/filetypes) */
	size_t n_types, n_types_not;
	const char *global; /* content of the user's own excludes file, or NULL */
	size_t global_len;
	unsigned max_depth; /* 0: all */
};

/*
 * Compiles a selection. Returns an object that the caller frees with walk_rules_free(), or NULL
 * with *err set: KODA_INVALID naming the invalid glob or type, KODA_TOO_LARGE for one that would
 * cost too much.
 */
struct walk_rules *walk_rules_new(const struct walk_rules_options *options, struct koda_error *err);
void walk_rules_free(struct walk_rules *rules);

#endif
