/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a call, which its tool's schema has let through. */
#ifndef KODA_MCP_TOOL_ARGS_H
#define KODA_MCP_TOOL_ARGS_H

#include "mcp/connection_state.h"

/* Returns NULL if the argument is missing. */
const char *tool_string(const struct tool_call *call, const char *key);
bool tool_bool(const struct tool_call *call, const char *key);
/* Returns `otherwise` if the argument is missing. */
uint64_t tool_number(const struct tool_call *call, const char *key, uint64_t otherwise);

#endif
