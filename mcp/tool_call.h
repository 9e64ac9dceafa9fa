/* SPDX-License-Identifier: Apache-2.0 */
/* What all tools do: check paths, submit an operation, end the call with a result. */
#ifndef KODA_MCP_TOOL_CALL_H
#define KODA_MCP_TOOL_CALL_H

#include "mcp/connection_state.h"

/* ---- the end of a call: each frees it ---- */

/* structured is stolen. text is for the model: it is taken too, and empty afterwards. NULL: use
 * the structured content as JSON. */
struct text;
void tool_done(struct tool_call *call, json_t *structured, struct text *text);
/* Like tool_done(), with content of other kinds: an array of it, stolen. */
void tool_done_content(struct tool_call *call, json_t *structured, json_t *content);
/* Ends the call with a result that the model sees: what the library reports, and what to do
 * about it. remedy is a sentence, or NULL for the usual one. */
void tool_failed(struct tool_call *call, const struct koda_error *err, const char *remedy);
void tool_fail(struct tool_call *call, enum koda_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks that the string arguments that become paths have no NUL. Returns false if the call has
 * failed. */
bool tool_check_paths(struct tool_call *call, const char *const *keys);

/* Does op on the call's slot; done gets the call. A failure before that ends the call. For
 * operations that change something use approval_submit(). */
void tool_submit(struct tool_call *call, const struct koda_op *op, koda_done_fn *done);

#endif
