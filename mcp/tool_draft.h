/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that decide on drafts. */
#ifndef KODA_MCP_TOOL_DRAFT_H
#define KODA_MCP_TOOL_DRAFT_H

struct tool_call;

void tool_draft_diff(struct tool_call *call);
void tool_draft_apply(struct tool_call *call);
void tool_draft_discard(struct tool_call *call);

#endif
