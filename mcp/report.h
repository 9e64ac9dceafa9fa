/* What the server is doing, put together for status.h: of each connection, and of the server. */
#ifndef KODA_MCP_REPORT_H
#define KODA_MCP_REPORT_H

#include "mcp/server.h"
#include "mcp/status.h"

/* A status_fill_fn; data is the server. */
void report_fill(void *data, struct status_snapshot *snapshot);

#endif
