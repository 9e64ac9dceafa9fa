/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are answered later. */
#ifndef KODA_MCP_CALL_H
#define KODA_MCP_CALL_H

#include "mcp/connection_state.h"

/* Creates a call. owed is the approximate size of the answer in bytes. params may have
 * _meta.progressToken. The call frees itself in call_answer() or call_refuse(). */
struct tool_call *call_new(struct connection *conn, struct batch *batch, const json_t *id,
    const json_t *params, size_t owed);
/* Makes that request, by which the client has called again, the call's own. */
void call_continue(struct tool_call *call, const json_t *id, const json_t *params);
/* Both end the call and free it. result and data are stolen. */
void call_answer(struct tool_call *call, json_t *result);
void call_refuse(struct tool_call *call, enum rpc_code code, const char *why, json_t *data);
/* Reports progress, in any unit; it must grow. total 0: unknown. */
void call_progress(struct tool_call *call, double progress, double total, const char *message);
void call_cancel(struct tool_call *call);
struct tool_call *call_find(struct connection *conn, const json_t *id);

#endif
