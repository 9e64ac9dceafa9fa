/*
 * A tunnel that the client has been told is open. What it may carry:
 *
 *	port 443, or TLS anywhere   a ClientHello first, whose server name is the target's (the rule says any-sni: whatever it is;
 *	                            any_domain: a name that the policy allows). No name, an encrypted one, something else on port 443:
 *	                            refused, with an alert. Then a relay, or, when the host asked for it, an interception
 *	port 80                     plain HTTP, forwarded request by request with Host held to the target
 *	other ports                 whatever it is; also when the server speaks first
 *
 * Nothing passes before it is known what it is.
 */
#ifndef KODA_PROXY_SERVE_TUNNEL_H
#define KODA_PROXY_SERVE_TUNNEL_H

#include "proxy/gate.h"

typedef void tunnel_fn(void *data);
struct tunnel;
/* Takes both descriptors and the account. bytes: what came behind the head. NULL: no memory; nothing was taken. */
struct tunnel *tunnel_start(struct listener *l, Koda__EgressKind kind, const struct target *target,
    const struct egress_verdict *verdict, int client, const void *bytes, size_t n, int server,
    struct account *account, tunnel_fn *fn, void *data);
void tunnel_cancel(struct tunnel *t);

#endif
