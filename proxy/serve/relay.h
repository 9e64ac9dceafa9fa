/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between two connected sockets until both directions have ended, or neither has had a
 * byte for PROXY_IDLE_SECS. Passes half-close on. Small amounts are read and written; large ones
 * are spliced through pooled pipes, and a direction holds a pipe only while bytes are in it. An
 * idle relay holds no buffer.
 */
#ifndef KODA_PROXY_SERVE_RELAY_H
#define KODA_PROXY_SERVE_RELAY_H

#include "proxy/control.h"

struct relay_pool *relay_pool_new(void);
void relay_pool_free(struct relay_pool *pool);

enum relay_end {
	RELAY_DONE, /* both ended */
	RELAY_IDLE,
	RELAY_BROKEN, /* reset, or another error */
};
typedef void relay_fn(void *data, enum relay_end why);
struct relay;
/*
 * Start a relay. It takes both descriptors (non-blocking) and closes them, with a reset towards a
 * side whose stream was not delivered to its end, so that a part is never taken for the whole. up,
 * down: bytes that were read already and go first (to the server, to the client); they are copied.
 * The account's counts grow as bytes are delivered. The process has to ignore SIGPIPE (splice
 * raises it). NULL: no memory, the descriptors are still the caller's.
 */
struct relay *relay_start(struct proxy *p, int client, int server, const void *up, size_t n_up,
    const void *down, size_t n_down, struct account *account, relay_fn *fn, void *data);
/* End it at once, without calling fn. */
void relay_cancel(struct relay *r);

#endif
