/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of a child: at most what its parent may do. Starts nothing. */
#ifndef KODA_MCP_CHILD_POLICY_H
#define KODA_MCP_CHILD_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "include/koda/sandbox.h"

/* Per list. A parent that needs more should give the child another directory. */
#define CHILD_RULES_MAX 64

struct child_rules {
	const char *rule[CHILD_RULES_MAX];
	size_t n;
};

/* What the parent asks for. The texts are the caller's. */
struct child_wish {
	const char *name;
	enum koda_mode mode; /* not above the parent's */
	const char *root;    /* canonical; the parent's root or a directory below it */
	/* Where its changes go. KODA_WORKSPACE_DIRECT: where its parent's go. */
	enum koda_workspace workspace;
	struct child_rules deny_read, deny_write; /* paths, absolute or below the root */
	struct child_rules domains;
	bool has_domains; /* false: the parent's domains apply */
	bool network;
};

/*
 * Composes the mode's policy for the child's root, the wish, and the parent's policy. The result is
 * frozen and nowhere wider than the parent's. parent_slot is the parent's slot, which knows links
 * outside the child's root; NULL if the child cannot write. Returns NULL with *err set on failure.
 */
struct koda_policy *child_policy(const struct koda_policy *parent, struct koda_slot *parent_slot,
    const struct child_wish *wish, struct koda_error *err);

#endif
