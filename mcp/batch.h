/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of one batch, sent together. */
#ifndef KODA_MCP_BATCH_H
#define KODA_MCP_BATCH_H

#include "mcp/connection_state.h"

struct batch *batch_new(struct connection *conn);
/* batch_hold() adds a holder and returns batch. batch_leave() adds the holder's answer, if it is
 * not NULL, and drops the holder; the last one sends the answers and frees batch. answer is
 * stolen. */
struct batch *batch_hold(struct batch *batch);
void batch_leave(struct batch *batch, json_t *answer);

#endif
