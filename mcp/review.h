/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that has the client's session for itself: to decide on drafts, and to take changes back. It
 * begins when no other call is under way. A slot that works in a draft is ended for it, because a
 * draft cannot be opened while a slot works in it. Messages that need the slot wait until it ends.
 */
#ifndef KODA_MCP_REVIEW_H
#define KODA_MCP_REVIEW_H

#include "mcp/connection_state.h"
#include "mcp/review_line.h"

/* Calls begin() in one of the next turns of the loop, unless the call is cancelled before. */
void review_wait(struct tool_call *call, review_fn *begin);
/* The same, but it does not have the session for itself, so it does not wait for other calls. */
void review_soon(struct tool_call *call, review_fn *begin);
/* Begins the next one if it is time. It may run turns of the loop. */
void review_tick(struct connection *conn);

/* Between these two the library may wait for the connection (hub->wait). Begin returns -1 with *err
 * set if another connection waits for its slot. */
int review_enter(struct connection *conn, struct koda_error *err);
void review_leave(struct connection *conn);

/* Opens the draft; call koda_draft_close() between review_enter() and review_leave(). */
struct koda_draft *review_open(struct connection *conn, const char *id, struct koda_error *err);

/* Ends the slot: the next call that needs one gets a new one. */
void review_end_slot(struct connection *conn);

#endif
