/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ends of an endpoint send to each other: one packet each way, on SOCK_SEQPACKET. */
#ifndef KODA_MCP_ENDPOINT_WIRE_H
#define KODA_MCP_ENDPOINT_WIRE_H

#include "mcp/runtime.h"
#include "mcp/tokens.h"

/* A token, NAME.SECRET: the name leads to the server, which knows the secret. */
#define ENDPOINT_TOKEN_LEN  (RUNTIME_NAME_LEN + 1 + TOKEN_SECRET_LEN)
#define ENDPOINT_TOKEN_SIZE (ENDPOINT_TOKEN_LEN + 1)

/* To the server: this text and the token, with exactly two descriptors, one to read and one to
 * write. */
#define ENDPOINT_HELLO     "koda-child 1 "
#define ENDPOINT_HELLO_LEN (sizeof(ENDPOINT_HELLO) - 1 + ENDPOINT_TOKEN_LEN)
#define ENDPOINT_FDS       2

/* To the program: a status in one byte, and a sentence. */
#define ENDPOINT_SENTENCE_MAX 400
#define ENDPOINT_REFUSED      3 /* the command line's status for "refused" */

#endif
