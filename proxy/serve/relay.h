/*
 * Bytes between two connected sockets until both directions have ended, or nothing has come for PROXY_IDLE_SECS in either.
 * Half-close is passed on. Small amounts are read and written, large ones spliced through pipes of a pool, of which a
 * direction holds one only while bytes are in it. An idle one holds no buffer.
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
 * Both descriptors (non-blocking) are the relay's from now on, and closed by it: with a reset towards whoever has not got its
 * stream to the end, so that a part is never taken for the whole. up, down: bytes that were read already and go first (to the server, to the
 * client): copied. account's counts grow as bytes are delivered. The process ignores SIGPIPE (splice raises it). NULL: no
 * memory, the descriptors are still the caller's.
 */
struct relay *relay_start(struct proxy *p, int client, int server, const void *up, size_t n_up,
    const void *down, size_t n_down, struct account *account, relay_fn *fn, void *data);
/* Ends it at once, without calling fn. */
void relay_cancel(struct relay *r);

#endif
