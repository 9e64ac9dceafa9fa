/* SPDX-License-Identifier: Apache-2.0 */
/* read_file, list_directory, explain_access: the tools that change nothing. */
#ifndef KODA_MCP_TOOL_READ_H
#define KODA_MCP_TOOL_READ_H

struct tool_call;

void tool_read_file(struct tool_call *call);
void tool_list_directory(struct tool_call *call);
void tool_explain_access(struct tool_call *call);

#endif
