/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A foreground command in a draft of its own: its slot, and what becomes of the draft afterwards. The
 * draft is kept for draft_apply; or it is applied as far as the policy allows; or, in Safe, the user is
 * shown what the command did, and it is applied or discarded. A command in Safe was not approved beforehand, so no host is open to it without a
 * question, not even those that the policy names.
 */
#ifndef KODA_MCP_COMMAND_DRAFT_H
#define KODA_MCP_COMMAND_DRAFT_H

#include "mcp/connection_state.h"
#include "mcp/text.h"

struct command;
struct command_draft;

/* A run_command under way: the state of its call. */
struct command_run {
	char *cwd; /* canonical; NULL: the root */
	struct command *command;
	struct command_draft *draft; /* NULL: it does not run in a draft of its own */
	bool effects;                /* it runs unasked, in a draft */
};

enum draft_end {
	DRAFT_KEPT,   /* until draft_apply or draft_discard */
	DRAFT_JUDGED, /* applied as far as the policy allows */
	DRAFT_ASKED,  /* the user decides */
};

/* Opens a slot in a new draft for the command of that call. Returns NULL with *err set: KODA_UNSUPPORTED if there are no drafts here. */
struct command_draft *command_draft_new(struct tool_call *call, enum draft_end end,
    struct koda_error *err);
/* Call it when the call has ended; the session ends the slot. NULL is ignored. */
void command_draft_free(struct command_draft *d);
struct koda_slot *command_draft_slot(const struct command_draft *d);

/* The command has ended: adds the changes of the draft to its result, discards the draft if there
 * are none, and ends the call. Takes ret and t. */
void command_draft_over(struct command_draft *d, json_t *ret, struct text *t);
/* The command did not start, or it is not known how it ended: ends the call with the error. */
void command_draft_failed(struct command_draft *d, const struct koda_error *err);

#endif
