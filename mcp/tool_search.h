/* SPDX-License-Identifier: Apache-2.0 */
/* glob, grep, tree: they run beside everything else, a few at once; the others wait in a queue. */
#ifndef KODA_MCP_TOOL_SEARCH_H
#define KODA_MCP_TOOL_SEARCH_H

struct tool_call;

void tool_glob(struct tool_call *call);
void tool_grep(struct tool_call *call);
void tool_tree(struct tool_call *call);

#endif
