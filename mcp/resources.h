/* SPDX-License-Identifier: Apache-2.0 */
/* Files below the root as resources: listing, reading, and a template for files that are not
 * listed. */
#ifndef KODA_MCP_RESOURCES_H
#define KODA_MCP_RESOURCES_H

#include "mcp/connection_state.h"

/* Return NULL if the request is answered or will be, otherwise why its params are wrong. */
const char *resources_list(struct connection *conn, struct batch *batch, const struct rpc *rpc);
const char *resources_read(struct connection *conn, struct batch *batch, const struct rpc *rpc);
json_t *resources_templates(struct connection *conn);

#endif
