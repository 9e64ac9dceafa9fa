/* Files below the root as resources: listed, read, and a template for the rest. */
#ifndef KODA_MCP_RESOURCES_H
#define KODA_MCP_RESOURCES_H

#include "mcp/connection.h"

/* Both: NULL when it is answered, or will be; else why the params are wrong. */
const char *resources_list(struct connection *conn, struct batch *batch, const struct rpc *rpc);
const char *resources_read(struct connection *conn, struct batch *batch, const struct rpc *rpc);
json_t *resources_templates(struct connection *conn);

#endif
