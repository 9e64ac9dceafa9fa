/* glob, grep, tree: they run beside everything else, a few at once; the others wait in a queue. */
#ifndef KODA_MCP_TOOL_SEARCH_H
#define KODA_MCP_TOOL_SEARCH_H

struct call;

void tool_glob(struct call *call);
void tool_grep(struct call *call);
void tool_tree(struct call *call);

#endif
