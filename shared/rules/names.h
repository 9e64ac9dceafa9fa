/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of deny_write_names: what is protected by its name, at any depth. A rule is the end of
 * a path: one to NAMES_PARTS_MAX components (".vscode", ".github/hooks"), each literal or with one
 * '*' that stands for any bytes but a slash ("*.code-workspace"). It names the place and everything
 * below it. Rules are stored folded (shared/base/fold), and names are folded before they are
 * compared, because a case-insensitive directory would find them. Pure.
 */
#ifndef KODA_SHARED_RULES_NAMES_H
#define KODA_SHARED_RULES_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/rules/policy_list.h"

#define NAMES_PARTS_MAX 4   /* the longest rule for a known tool has three */
#define NAMES_RULE_MAX  128 /* bytes */

/* Returns 0, or -1 with *err set to KODA_INVALID and the reason. */
int names_check(const char *rule, struct koda_error *err);
/* Fold the rule in place into the form that is stored. */
void names_normalise(char *rule);
bool names_is_normalised(const char *rule);

/* Return the rule that names the canonical path or a directory above it; NULL: none. */
const char *names_rule_of(const struct policy_list *list, const char *path);
/* Return the rule that names path itself; NULL: none. */
const char *names_rule_at(const struct policy_list *list, const char *path);
/* Return the rule whose first components, but not all of them, are the end of path; NULL: none. */
const char *names_rule_begun(const struct policy_list *list, const char *path);
/* Like names_rule_begun(), but at least two components have to match: a file in place of that
 * directory redirects a tool to another directory, as a link does (".jj/repo"). A single
 * component may be any file's name ("mise", ".config"). */
const char *names_rule_cut(const struct policy_list *list, const char *path);

/* Is a directory of the path, above its last component, one that a package manager fills and
 * replaces? */
bool names_is_vendored(const char *path);
/* Is this the name of such a directory? */
bool names_is_vendor(const char *name);

/* An index of the rules, for a program that checks very many names. */
struct names_index;

/* Keeps pointers to the rules of the list. NULL: no memory. */
struct names_index *names_index_new(const struct policy_list *list);
void names_index_free(struct names_index *index);

struct names_found {
	const char *rule; /* NULL: none */
	/* The name is the rule's last component; otherwise it is an earlier one. */
	bool last;
	/* How many components of the rule the path ends with: the largest such number. */
	size_t parts;
	size_t at; /* the rule's place in the list */
};
/* Find the rule that the entry `name` of the directory at dir, a path of len bytes, completes or
 * begins. */
struct names_found names_index_find(const struct names_index *index, const char *dir, size_t len,
    const char *name);
/* The same without the directory: may some rule have the name as a component? */
bool names_index_may(const struct names_index *index, const char *name);

#endif
