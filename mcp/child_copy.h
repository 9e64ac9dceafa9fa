/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that works in a copy of the project: a worktree with a branch of its own, or a clone. The
 * library makes and releases it. What the child did is kept: on the branch, or in a draft on which its
 * parent decides.
 */
#ifndef KODA_MCP_CHILD_COPY_H
#define KODA_MCP_CHILD_COPY_H

#include "mcp/connection_state.h"

struct child_copy;
struct child_wish;

/* Makes the copy for a child of this connection, whose policy in the project is given, and waits.
 * Returns NULL with *err set. */
struct child_copy *child_copy_new(struct connection *parent, const struct child_wish *wish,
    const struct koda_policy *policy, struct koda_error *err);
const char *child_copy_root(const struct child_copy *copy);
/* Returns the policy for a session in the copy, which the caller owns, or NULL with *err set. */
struct koda_policy *child_copy_policy(const struct child_copy *copy,
    const struct koda_policy *policy, struct koda_error *err);

/*
 * Releases the copy of the child with that name of a session, and frees it. Nothing is lost: work in a
 * worktree is committed on its branch, and what cannot be committed keeps the copy; changes in a clone
 * become a draft of that client. What is kept is reported, and added to the hub's list. conn: the
 * child's connection, for the log, or NULL.
 */
void child_copy_end(struct child_copy *copy, struct hub *hub, const char *client,
    struct connection *conn);

/* What is kept of children that have ended, below the connection, oldest first. */
struct kept_copy {
	struct kept_copy *next;
	char *client;
	char *id, *path, *branch, *reason, *hint; /* path "": only the branch is left */
};
typedef void kept_copy_fn(void *data, const char *child, const struct kept_copy *kept);
void child_copies_kept(const struct connection *conn, kept_copy_fn *fn, void *data);
void child_copies_free(struct hub *hub);

#endif
