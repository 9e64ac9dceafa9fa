/* open_child, close_child, list_children: narrower sessions for other agents. */
#ifndef KODA_MCP_TOOL_CHILD_H
#define KODA_MCP_TOOL_CHILD_H

struct call;

void tool_open_child(struct call *call);
void tool_close_child(struct call *call);
void tool_list_children(struct call *call);

#endif
