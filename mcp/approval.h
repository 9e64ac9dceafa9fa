/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes and commands that the user has to allow, on their way to the library: what is read to show
 * them, when the library is asked, and which question (questions.h) is about which of them.
 *
 * An answer applies to what was shown. The library checks that the operation still does what its
 * preview found. For a diff the server reads the file before the preview, and the change must find
 * the digest of that content. So either the user gets what was shown, or the call fails with a
 * conflict.
 */
#ifndef KODA_MCP_APPROVAL_H
#define KODA_MCP_APPROVAL_H

#include "mcp/connection_state.h"

struct approvals;
struct approvals *approval_new(struct connection *conn);
/* Stops asking: answers every open question with no. Call it before the session is closed. */
void approval_end(struct approvals *a);
/* Call it after the session is closed. */
void approval_free(struct approvals *a);

/* Does op, which changes something, on the call's slot, after asking the user if the policy
 * requires it. op and what it points to must live as long as the call. done gets the call; a
 * failure before that ends the call. */
void approval_submit(struct tool_call *call, const struct koda_op *op, koda_done_fn *done);

/* The session's koda_approve_fn. */
void approval_question(struct connection *conn, const struct koda_question *question);

/*
 * Decides whether this command may run. Asks, unless exactly this command was allowed for the
 * session and nothing below the root has changed since it was shown (tree.h). answered is called
 * once, maybe before this returns; on yes, start the command with koda_command_options.approved.
 * argv ends with NULL; env does too, or is NULL. Not for policies that require no asking.
 *
 * A permission also lapses through the changes of the command itself: the next time, the files
 * differ from those that the user had in mind.
 */
typedef void approval_answered_fn(struct tool_call *call, bool yes);
void approval_command(struct tool_call *call, const char *const *argv, const char *cwd,
    const char *const *env, bool background, approval_answered_fn *answered);
/*
 * Asks about what a draft, or taking back, does to the project: message says it, and begins with a
 * verb. cut: it does not say all of it. covers: identifies the command that did it, so that it may
 * be allowed for the session; NULL: only once. Not for policies that require no asking.
 */
struct text;
void approval_effects(struct tool_call *call, const struct text *message, bool cut,
    const struct text *covers, approval_answered_fn *answered);
/* Sets *ret to what identifies the effects of a foreground command. */
void approval_cover_effects(struct text *ret, const char *const *argv, const char *cwd);
/* Around applying the effects of a command: they do not end what was allowed for it. Returns whether
 * it is allowed, for the second call. */
bool approval_effects_begin(struct connection *conn, const struct text *covers);
void approval_effects_end(struct connection *conn, const struct text *covers, bool held);
/* Drops the permissions for "this exact command", so that the user is asked again: for changes
 * that tree.h cannot detect in advance, such as those of a command that goes on in the
 * background. */
void approval_lapse(struct connection *conn);
/* No command of the client is running any more: withdraws the questions about hosts that they
 * wanted to reach. */
void approval_hosts_over(struct connection *conn);
/* Returns whether foreground commands run at once, and the user is asked about their effects. Not in
 * a session whose user may not be asked about hosts: no host would be open to a command. */
bool approval_is_of_effects(const struct connection *conn);
/* Returns whether the policy requires asking the user. */
bool approval_wanted(const struct connection *conn);

#endif
