/* SPDX-License-Identifier: Apache-2.0 */
/* write_file, edit_file, move, remove: the tools that change something, after the user has
 * approved it where that is required. */
#ifndef KODA_MCP_TOOL_CHANGE_H
#define KODA_MCP_TOOL_CHANGE_H

struct tool_call;

void tool_write_file(struct tool_call *call);
void tool_edit_file(struct tool_call *call);
void tool_move(struct tool_call *call);
void tool_remove(struct tool_call *call);

#endif
