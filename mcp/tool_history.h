/* SPDX-License-Identifier: Apache-2.0 */
/* The tools for what was applied to the project: listing it, and taking it back. */
#ifndef KODA_MCP_TOOL_HISTORY_H
#define KODA_MCP_TOOL_HISTORY_H

struct tool_call;

void tool_history(struct tool_call *call);
void tool_undo(struct tool_call *call);

#endif
