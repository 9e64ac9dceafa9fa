/* SPDX-License-Identifier: Apache-2.0 */
/* `koda-sandbox mcp --child TOKEN`: hands its standard input and output to the server that made
 * the token, and waits. */
#ifndef KODA_MCP_ENDPOINT_CLIENT_H
#define KODA_MCP_ENDPOINT_CLIENT_H

#include "include/koda/sandbox.h"

/*
 * Returns the status that the server sent, 0 to 255, with its sentence, if any, in err->message
 * (with KODA_OK); or -1 with *err set: the token is invalid, the server is not there, or it died.
 */
int endpoint_client_run(const char *token, int in, int out, struct koda_error *err);

#endif
