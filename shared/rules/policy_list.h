/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of rules of a policy: texts in the order in which they were added, each of them once. A
 * long list has a hash table, so that adding thousands of rules takes linear time. What a rule
 * means is left to policy.h, names.h and domain.h.
 */
#ifndef KODA_SHARED_RULES_POLICY_LIST_H
#define KODA_SHARED_RULES_POLICY_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

#define POLICY_RULES_MAX 4096 /* per list: a policy must fit a frame beside the rest of Seal */

/* Some rules of a list: indices, in their order. */
struct policy_some {
	uint16_t *at;
	size_t n;
};

/*
 * A list is in one of three states. Absent (n == 0, !present): it inherits in policy_compose() and
 * otherwise permits nothing. Present and empty: it permits nothing. Present with rules.
 */
struct policy_list {
	bool present;
	size_t n;
	char **v; /* NUL-terminated; owned by the policy */
	/* A hash table of v, made by policy_list_add(): 0, or 1 + the index of a rule. */
	uint32_t *slot;
	size_t n_slots; /* 0, or a power of two above n */
	/* Those with a '*', and those with two slashes or more: judging a path asks for them, see
	 * names.c. */
	struct policy_some starred, deep;
};

/* Append the rule unless the list has it already; the list becomes present. Does not check the
 * rule. Returns 0, or -1 with *err set: too many rules, or no memory. */
int policy_list_add(struct policy_list *list, const char *rule, struct koda_error *err);
/* The same for each rule of src. If src is present, dst becomes present too. */
int policy_list_add_all(struct policy_list *dst, const struct policy_list *src,
    struct koda_error *err);

/* Return the index of the rule with exactly that text, or list->n if there is none. */
size_t policy_list_find(const struct policy_list *list, const char *rule);
bool policy_list_has(const struct policy_list *list, const char *rule);

/* Of the rules that are this path or a directory above it, return the index of the first in the list,
 * or of the longest; list->n if there is none. The time does not depend on the number of rules. */
size_t policy_list_first_above(const struct policy_list *list, const char *path);
size_t policy_list_longest_above(const struct policy_list *list, const char *path);

/* Frees the rules and leaves the list absent. */
void policy_list_done(struct policy_list *list);

#endif
