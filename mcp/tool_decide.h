/* SPDX-License-Identifier: Apache-2.0 */
/* What the tools that decide on drafts and on the history have in common. */
#ifndef KODA_MCP_TOOL_DECIDE_H
#define KODA_MCP_TOOL_DECIDE_H

#include "mcp/change_set.h"
#include "mcp/connection_state.h"

/* The paths that a call selects. */
struct decide_paths {
	const char **path;
	size_t n;
};
/* Takes the argument "paths". Returns false if the call has failed. */
bool decide_paths_take(struct tool_call *call, struct decide_paths *ret);
void decide_paths_done(struct decide_paths *paths);
/* Takes the argument "take". */
enum koda_take decide_take(const struct tool_call *call);
/* Returns false if the mode changes nothing: then the call has failed. */
bool decide_may_change(struct tool_call *call);
/* Ends the call because the user did not say yes to what it would have changed. */
void decide_not_approved(struct tool_call *call, const char *what);
/* Adds counts and changes to a result. */
void decide_add(json_t *ret, const struct change_set *set);

#endif
