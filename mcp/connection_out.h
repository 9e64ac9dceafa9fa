/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to a client: answers, requests of ours, its log. */
#ifndef KODA_MCP_CONNECTION_OUT_H
#define KODA_MCP_CONNECTION_OUT_H

#include "mcp/connection_state.h"

/* Writes what is queued, as far as the client takes it now. */
void connection_write(struct connection *conn);
/* Queues message, which is stolen. */
void connection_send(struct connection *conn, json_t *message);
void connection_log(struct connection *conn, enum level level, const char *text);
const char *level_name(enum level level);

#endif
