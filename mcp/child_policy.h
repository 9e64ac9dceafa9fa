/* What a child may do: what its parent may, and less. Starts nothing. */
#ifndef KODA_MCP_CHILD_POLICY_H
#define KODA_MCP_CHILD_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "include/koda/sandbox.h"

/* Of each list. Who needs more wants another directory. */
#define CHILD_RULES_MAX 64

struct child_rules {
	const char *rule[CHILD_RULES_MAX];
	size_t n;
};

/* What the parent wants it to be. The texts are the caller's. */
struct child_wish {
	const char *name;
	enum koda_mode mode;                      /* not above the parent's */
	const char *root;                         /* canonical; the parent's or below it */
	struct child_rules deny_read, deny_write; /* paths, absolute or below the root */
	struct child_rules domains;
	bool has_domains; /* else the parent's */
	bool network;
};

/*
 * Composes the mode's policy for the child's root, the wish, and the parent's policy. The result is frozen and in nothing
 * wider than the parent's. parent_slot: the parent's slot, which knows links outside of the child's root; NULL if the child
 * cannot write. Returns NULL with *err set on failure.
 */
struct koda_policy *child_policy(const struct koda_policy *parent, struct koda_slot *parent_slot,
    const struct child_wish *wish, struct koda_error *err);

#endif
