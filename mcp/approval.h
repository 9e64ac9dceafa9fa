/*
 * Asking the user through the client (elicitation), one question at a time, and what was allowed for longer than once.
 *
 * An answer binds what was shown. The library guards the act by what its own preview found; for a diff the file is read
 * before that, and the change is guarded by the digest of what was read. So what the user has seen is what happens, or a
 * conflict.
 */
#ifndef KODA_MCP_APPROVAL_H
#define KODA_MCP_APPROVAL_H

#include "mcp/connection.h"

struct approvals;
struct approvals *approval_new(struct connection *conn);
/* Nobody is asked any more: what is open is answered with no. Before the session is closed. */
void approval_end(struct approvals *a);
/* After it. */
void approval_free(struct approvals *a);

/* Do op, which changes something, on the call's slot: after the user has been asked, where the policy wants it. op and
 * what it points to live as long as the call. done gets the call; whatever fails before ends it. */
void approval_submit(struct call *call, const struct koda_op *op, koda_done_fn *done);

/* The session's koda_approve_fn. */
void approval_question(struct connection *conn, const struct koda_question *question);

/*
 * May this command run? Asks, unless exactly this was allowed for the session and nothing below the root has changed since
 * it was shown (tree.h). answered is called once, maybe before this returns; yes: start it with
 * koda_command_options.approved. argv ends with NULL; env, too, or is NULL. Not for policies that need no asking.
 *
 * What was allowed lapses by what the command itself changes, too: the next time its files are others than those that the
 * user had in mind.
 */
typedef void approval_answered_fn(struct call *call, bool yes);
void approval_command(struct call *call, const char *const *argv, const char *cwd,
    const char *const *env, bool background, approval_answered_fn *answered);
/* What was allowed for "this exact command" is asked for again: for changes that tree.h cannot see coming, such as a
 * command that goes on in the background. */
void approval_lapse(struct connection *conn);
/* No command of the client runs any more: what they wanted to reach is not asked for. */
void approval_hosts_over(struct connection *conn);
/* Does the policy want somebody to be asked? */
bool approval_wanted(const struct connection *conn);

#endif
