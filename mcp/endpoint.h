/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where child agents connect. Their MCP client starts `koda-sandbox mcp --child TOKEN`; that
 * program finds the server by the token, hands over its standard input and output, and waits. From
 * then on the server talks to the client directly, and the program exists only to be waited for:
 * when it dies the child's connection ends, and when the connection ends, the program does.
 *
 * A token is good once (a client that only looks at what the server is does not use it up), for
 * five minutes, and only for the same user. Nothing here knows MCP.
 */
#ifndef KODA_MCP_ENDPOINT_H
#define KODA_MCP_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "mcp/endpoint_wire.h"
#include "mcp/runtime.h"

/* Maximum connections that have not sent anything yet, and how long they may stay. They are of
 * the same user, so others are not kept out for long. */
#define ENDPOINT_PENDING_MAX   16
#define ENDPOINT_HELLO_SECONDS 5

struct endpoint;

/*
 * Called when a child has connected with its token. The callee owns the three descriptors; in and
 * out are as the client made them (they may block). control polls readable when the program is
 * gone; endpoint_end() closes it.
 */
typedef void endpoint_child_fn(void *data, uint64_t child, int in, int out, int control);

/* Creates an endpoint. The runtime stays the caller's, and must outlive it. Returns NULL with
 * *err set on failure. */
struct endpoint *endpoint_new(struct runtime *rt, endpoint_child_fn *on_child, void *data,
    struct koda_error *err);
void endpoint_free(struct endpoint *ep);

/* endpoint_fd() returns one descriptor for any loop: it is readable when endpoint_dispatch() has
 * something to do. endpoint_dispatch() calls on_child, which may call everything here except
 * endpoint_free(). */
int endpoint_fd(const struct endpoint *ep);
void endpoint_dispatch(struct endpoint *ep);

/* Makes a token for the child, whose number the caller chooses. Returns 0, or -1 with *err set. */
int endpoint_open(struct endpoint *ep, uint64_t child, char ret[ENDPOINT_TOKEN_SIZE],
    struct koda_error *err);
/* Makes the child's token good again, after its client left without doing anything. Returns
 * false if the token has expired. */
bool endpoint_give_back(struct endpoint *ep, uint64_t child);
/* Makes the child's token worthless: the parent has closed the child, or its client is at work. */
void endpoint_revoke(struct endpoint *ep, uint64_t child);

/* Ends the program after the child's connection: it exits with that status, 0 for a clean end,
 * and prints the sentence, if any, on standard error. Closes control. */
void endpoint_end(int control, uint8_t status, const char *sentence);

/* Returns the number of connections refused: another user, an unknown or used token, no
 * descriptors, or nonsense. */
uint64_t endpoint_refusals(const struct endpoint *ep);

#endif
