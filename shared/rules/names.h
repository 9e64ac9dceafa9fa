/*
 * The rules of deny_write_names: what is protected by its name, at any depth. A rule is the end of a path: one to
 * NAMES_PARTS_MAX components (".vscode", ".github/hooks"), each literal or with one '*' for any bytes but a slash
 * ("*.code-workspace"). It names the place and all below it. Rules are kept folded (shared/base/fold), and names are folded
 * before they are compared, because a case-insensitive directory would find them. Pure.
 */
#ifndef KODA_SHARED_RULES_NAMES_H
#define KODA_SHARED_RULES_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/rules/policy.h"

#define NAMES_PARTS_MAX 4   /* the longest that tools know have three */
#define NAMES_RULE_MAX  128 /* bytes */

/* KODA_INVALID with why. */
int names_check(const char *rule, struct koda_error *err);
/* As it is kept. */
void names_normalise(char *rule);
bool names_is_normalised(const char *rule);

/* The rule that names the canonical path or something above it; NULL. */
const char *names_rule_of(const struct policy_list *list, const char *path);
/* The rule that names path itself; NULL. */
const char *names_rule_at(const struct policy_list *list, const char *path);
/* The rule whose first components, but not all of them, are the end of path; NULL. */
const char *names_rule_begun(const struct policy_list *list, const char *path);
/* The same of two components or more: a file there, in the place of the directory, leads a tool to another one, as a link
 * does (".jj/repo"). One component alone may be any file's name ("mise", ".config"). */
const char *names_rule_cut(const struct policy_list *list, const char *path);

/* Is a component of the path the name of a directory that a package manager fills, and replaces? */
bool names_is_vendored(const char *path);
/* Is that the name of one? */
bool names_is_vendor(const char *name);

/* The rules, for a program that looks at very many names. */
struct names_index;

/* NULL: no memory. Keeps pointers to the rules of the list. */
struct names_index *names_index_new(const struct policy_list *list);
void names_index_free(struct names_index *index);

struct names_found {
	const char *rule; /* NULL: none */
	bool last;    /* the name is the rule's last component; otherwise it is on the way to it */
	size_t parts; /* how many components of the rule the path ends with: the most that do */
	size_t at;    /* the rule's place in the list */
};
/* The rule that the entry `name` of the directory at dir, a path of len bytes, ends or begins. */
struct names_found names_index_find(const struct names_index *index, const char *dir, size_t len,
    const char *name);
/* The same without the directory: may a rule have the name as a component? */
bool names_index_may(const struct names_index *index, const char *name);

#endif
