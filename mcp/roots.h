/*
 * The client's roots. The root is the one that the server was started with, and nothing that a client says widens it:
 * what it tells is only held against that, to warn when the two do not fit.
 */
#ifndef KODA_MCP_ROOTS_H
#define KODA_MCP_ROOTS_H

#include "mcp/connection.h"

/* If the client has some. */
void roots_ask(struct connection *conn);

#endif
