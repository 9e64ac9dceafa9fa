/* SPDX-License-Identifier: Apache-2.0 */
/* run_command, command_output, command_stop, command_list. */
#ifndef KODA_MCP_TOOL_COMMAND_H
#define KODA_MCP_TOOL_COMMAND_H

struct tool_call;

void tool_run_command(struct tool_call *call);
void tool_command_output(struct tool_call *call);
void tool_command_stop(struct tool_call *call);
void tool_command_list(struct tool_call *call);

#endif
