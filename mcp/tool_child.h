/* SPDX-License-Identifier: Apache-2.0 */
/* open_child, close_child, list_children: narrower sessions for other agents. */
#ifndef KODA_MCP_TOOL_CHILD_H
#define KODA_MCP_TOOL_CHILD_H

struct tool_call;

void tool_open_child(struct tool_call *call);
void tool_close_child(struct tool_call *call);
void tool_list_children(struct tool_call *call);

#endif
