/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/review_line.h"

#include <stdlib.h>

#include "mcp/memory.h"

void
review_line_add(struct tool_call *call, review_fn *begin, bool alone)
{
	struct review_waiter *w = memory_zero(sizeof(*w)), **at = &call->conn->reviews;

	*w = (struct review_waiter){ .call = call, .begin = begin, .alone = alone };
	while (*at != NULL)
		at = &(*at)->next;
	*at = w;
}

void
review_line_leave(const struct tool_call *call)
{
	struct connection *conn = call->conn;
	struct review_waiter **at = &conn->reviews, *w;

	if (conn->reviewing == call)
		conn->reviewing = NULL;
	while (*at != NULL && (*at)->call != call)
		at = &(*at)->next;
	w = *at;
	if (w == NULL)
		return;
	*at = w->next;
	free(w);
}

size_t
review_line_length(const struct connection *conn)
{
	size_t n = 0;

	for (const struct review_waiter *w = conn->reviews; w != NULL; w = w->next)
		n += w->alone;
	return n;
}
