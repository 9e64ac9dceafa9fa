/* SPDX-License-Identifier: Apache-2.0 */
/* What the server is doing, collected for status.h: for each connection, and for the server. */
#ifndef KODA_MCP_REPORT_H
#define KODA_MCP_REPORT_H

#include "mcp/server.h"
#include "mcp/status.h"

/* A status_fill_fn; data is the server. */
void report_fill(void *data, struct status_snapshot *snapshot);

#endif
