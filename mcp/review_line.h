/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that wait to have their client's session for themselves (review.h), in their order. */
#ifndef KODA_MCP_REVIEW_LINE_H
#define KODA_MCP_REVIEW_LINE_H

#include "mcp/connection_state.h"

typedef void review_fn(struct tool_call *call);

struct review_waiter {
	struct review_waiter *next;
	struct tool_call *call;
	review_fn *begin;
	bool alone; /* only when no other call is under way */
};

void review_line_add(struct tool_call *call, review_fn *begin, bool alone);
/* The call waits no longer, and does not have the session for itself: it has ended. */
void review_line_leave(const struct tool_call *call);
/* Returns how many of them wait until they are alone. */
size_t review_line_length(const struct connection *conn);

#endif
