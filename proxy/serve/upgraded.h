/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two sides exchange after they have changed the protocol: bytes are passed on as they come.
 * Sides without TLS are handed to a relay as soon as nothing of the exchange is left.
 */
#ifndef KODA_PROXY_SERVE_UPGRADED_H
#define KODA_PROXY_SERVE_UPGRADED_H

#include "proxy/serve/relay.h"
#include "proxy/serve/side.h"

enum upgraded_result {
	UPGRADED_WAITS, /* nothing happened */
	UPGRADED_MOVED,
	UPGRADED_PLAIN, /* call upgraded_relay() */
	UPGRADED_OVER,  /* both have ended */
	UPGRADED_BROKEN,
};

/* Pass on what has come, in both directions, and count it. */
enum upgraded_result upgraded_pump(struct side *client, struct side *server,
    struct account *account);
/* Start a relay, which takes both descriptors. NULL: no memory; nothing was taken. */
struct relay *upgraded_relay(struct proxy *p, struct side *client, struct side *server,
    struct account *account, relay_fn *fn, void *data);

#endif
