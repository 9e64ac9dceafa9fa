/* run_command, command_output, command_stop, command_list. */
#ifndef KODA_MCP_TOOL_COMMAND_H
#define KODA_MCP_TOOL_COMMAND_H

struct call;

void tool_run_command(struct call *call);
void tool_command_output(struct call *call);
void tool_command_stop(struct call *call);
void tool_command_list(struct call *call);

#endif
