/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's roots. The root is the one that the server was started with, and nothing that a
 * client says widens it: the client's roots are only compared with it, to warn if they do not fit.
 */
#ifndef KODA_MCP_ROOTS_H
#define KODA_MCP_ROOTS_H

#include "mcp/connection_state.h"

/* Asks the client for its roots, if it has any. */
void roots_ask(struct connection *conn);

#endif
