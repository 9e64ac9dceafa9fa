/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools as the protocol has them: their list, their schemas, and calling one. A tool's run() gets a
 * call whose arguments match its schema, and ends it with one of the functions of tool_call.h, at
 * once or from a callback.
 */
#ifndef KODA_MCP_TOOLS_H
#define KODA_MCP_TOOLS_H

#include "mcp/connection_state.h"
#include "mcp/tool_table.h"

/* Return the parsed schemas of tools[i]; the table owns them. */
const json_t *tools_input(size_t i);
const json_t *tools_output(size_t i);

/* Answers tools/list; NULL with *why set if the params are wrong. */
json_t *tools_list(struct connection *conn, const json_t *cursor, const char **why);
/* Handles tools/call. Returns NULL if it is answered or will be, otherwise why its params are
 * wrong. */
const char *tools_call(struct connection *conn, struct batch *batch, const struct rpc *rpc);

#endif
