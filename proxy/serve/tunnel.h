/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tunnel whose client has been told that it is open. What it may carry:
 *
 *	port 443, or TLS anywhere   a ClientHello first, whose server name is the target's (if
 *	                            the rule says any-sni: any name; with any_domain: a name
 *	                            that the policy allows). No name, an encrypted one, or
 *	                            something else on port 443: refused, with an alert. Then a
 *	                            relay or, when the host asked for it, an interception
 *	port 80                     plain HTTP, forwarded request by request; Host has to be
 *	                            the target
 *	other ports                 anything; also when the server speaks first
 *
 * Nothing passes before the protocol is known.
 */
#ifndef KODA_PROXY_SERVE_TUNNEL_H
#define KODA_PROXY_SERVE_TUNNEL_H

#include "proxy/gate.h"

typedef void tunnel_fn(void *data);
struct tunnel;
/* Start a tunnel. Takes both descriptors and the account. bytes: what came after the head. NULL:
 * no memory; nothing was taken. */
struct tunnel *tunnel_start(struct listener *l, Koda__EgressKind kind, const struct target *target,
    const struct egress_verdict *verdict, int client, const void *bytes, size_t n, int server,
    struct account *account, tunnel_fn *fn, void *data);
void tunnel_cancel(struct tunnel *t);

#endif
