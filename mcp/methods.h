/* The requests and notifications of a client: a table of the protocol's methods, and the phases
 * in which each may come. */
#ifndef KODA_MCP_METHODS_H
#define KODA_MCP_METHODS_H

#include "mcp/connection.h"

/* Handles rpc, a request, a notification or a response. batch NULL: it did not come in a batch. */
void methods_handle(struct connection *conn, struct batch *batch, const struct rpc *rpc);

/* Returns whether the client can put a question to a person. params are those of the request
 * that needs the answer. */
bool methods_can_ask(const struct connection *conn, const json_t *params);
/* Adds to the result what every result has where the protocol has rounds. Returns the same
 * result. */
json_t *methods_result(json_t *result, bool cacheable);

/* Returns false if the message can be answered without a slot. */
bool methods_needs_slot(const struct connection *conn, const struct rpc *rpc);
/* Returns the id of the request that the message cancels, or NULL if it cancels none. */
const json_t *methods_cancels(const struct rpc *rpc);

#endif
