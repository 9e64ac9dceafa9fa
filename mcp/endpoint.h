/*
 * Where child agents come in. Their MCP client starts `koda-sandbox mcp --child TOKEN`; that program finds the server by the
 * token, hands over its standard input and output, and waits. From then on the server speaks with the client directly, and
 * the program is only there to be waited for: when it dies the child's connection ends, and when that ends, it does.
 *
 * A token is good once (to look what the server is does not count), for five minutes, and only for the same user. Nothing here knows MCP.
 */
#ifndef KODA_MCP_ENDPOINT_H
#define KODA_MCP_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "mcp/runtime.h"
#include "mcp/tokens.h"

/* Who has connected and not said anything yet. Same user, so nobody is kept out for long. */
#define ENDPOINT_PENDING_MAX   16
#define ENDPOINT_HELLO_SECONDS 5

/* NAME.SECRET */
#define ENDPOINT_TOKEN_LEN  (RUNTIME_NAME_LEN + 1 + TOKEN_SECRET_LEN)
#define ENDPOINT_TOKEN_SIZE (ENDPOINT_TOKEN_LEN + 1)

struct endpoint;

/*
 * A child has come with its token. The three descriptors are the callee's; in and out are as the client made them (they
 * may block). control polls readable when the program is gone; endpoint_end() closes it.
 */
typedef void endpoint_child_fn(void *data, uint64_t child, int in, int out, int control);

/* The runtime stays the caller's, and outlives it. NULL with *err set. */
struct endpoint *endpoint_new(struct runtime *rt, endpoint_child_fn *on_child, void *data,
    struct koda_error *err);
void endpoint_free(struct endpoint *ep);

/* One descriptor for any loop: readable when endpoint_dispatch() has something to do. on_child is called from there, and may
 * call everything here but endpoint_free(). */
int endpoint_fd(const struct endpoint *ep);
void endpoint_dispatch(struct endpoint *ep);

/* A token for the child, whose number is the caller's own. 0, or -1 with *err set. */
int endpoint_open(struct endpoint *ep, uint64_t child, char ret[ENDPOINT_TOKEN_SIZE],
    struct koda_error *err);
/* Whoever came with the child's token has gone again, and has done nothing: it is good again. False: its time is over. */
bool endpoint_give_back(struct endpoint *ep, uint64_t child);
/* The parent has closed it, or its client is at work: its token is worth nothing any more. */
void endpoint_revoke(struct endpoint *ep, uint64_t child);

/* The child's connection is over: the program ends with that status, 0 when it was a clean end, and prints the sentence, if
 * there is one, on standard error. Closes control. */
void endpoint_end(int control, uint8_t status, const char *sentence);

/* Connections that were refused: another user, no token of ours or one that was used, no descriptors, nonsense. */
uint64_t endpoint_refusals(const struct endpoint *ep);

#endif
