/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1 requests, one after the other, each judged and rewritten separately: request line, Host,
 * framing and the end-to-end fields. Also supported: connections kept alive on both sides, chunked
 * bodies, 100-continue, upgrade (a WebSocket becomes a relay; for h2c the Upgrade is left out),
 * HTTP/1.0 clients, pipelining (one request at a time).
 *
 *	FORWARD_PROXY   absolute form: each request names its target; https:// is refused
 *	FORWARD_FIXED   origin form, inside a tunnel: Host has to be the target of the tunnel
 * A tunnel has one server connection: when that ends, the client's ends, too, as it would without a
 * proxy. For FORWARD_PROXY the next request makes another one, and a request that can be repeated
 * is repeated once if a kept-alive connection ended at that moment.
 *
 * Refusals are answered as gate does, and the connection goes on where its framing allows. A
 * message that broke off is never passed on as a complete one: the client's connection is reset.
 */
#ifndef KODA_PROXY_SERVE_FORWARD_H
#define KODA_PROXY_SERVE_FORWARD_H

#include "proxy/gate.h"
#include "proxy/serve/stream.h"

enum forward_kind {
	FORWARD_PROXY,
	FORWARD_FIXED,
};

typedef void forward_fn(void *data);
struct forward;

/* Start forwarding. Takes client. bytes: read already. FORWARD_FIXED: target, and server (with
 * fd -1, forward dials at the first request), with the account of its connection. fn: called at
 * the end. NULL: no memory; nothing was taken. */
struct forward *forward_start(struct listener *l, enum forward_kind kind, struct stream *client,
    const void *bytes, size_t n, const struct target *target, struct stream *server,
    struct account *account, forward_fn *fn, void *data);
void forward_cancel(struct forward *f);

/* There is no server: answer every request with this refusal. Call right after forward_start(). */
void forward_deny(struct forward *f, const struct refusal *why);

#endif
