/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all tools. */
#ifndef KODA_MCP_TOOL_TABLE_H
#define KODA_MCP_TOOL_TABLE_H

#include "mcp/tool.h"

extern const struct tool tools[];
extern const size_t n_tools;

#endif
