/* What a client can ask for and tell: the protocol's methods, by a table, and in which phase each may come. */
#ifndef KODA_MCP_METHODS_H
#define KODA_MCP_METHODS_H

#include "mcp/connection.h"

/* rpc is a request, a notification or a response. batch NULL: it came alone. */
void methods_handle(struct connection *conn, struct batch *batch, const struct rpc *rpc);

/* May its client be asked what a person has to say? params: of the request that wants to know. */
bool methods_can_ask(const struct connection *conn, const json_t *params);
/* The result with what each has where the protocol has rounds. It is returned. */
json_t *methods_result(json_t *result, bool cacheable);

#endif
