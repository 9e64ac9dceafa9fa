/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A judged name -> a connected TCP socket (non-blocking, close-on-exec, TCP_NODELAY, keep-alive).
 * Resolves the name (a literal needs no resolving), judges each address (egress_judge_address; own:
 * bind() to it would succeed) and connects to the allowed ones in the resolver's order, with 250 ms
 * between attempts (RFC 8305), alternating families. connect() gets the very address that was
 * judged. For a domain of the policy's socket_map the host connects.
 *
 * With a proxy of the user's own (shared/rules/upstream): where the name resolves here, dial
 * refuses it if it leads to a forbidden address; a name that does not resolve here is resolved by
 * that proxy. The address of the user's proxy is the user's decision and is not judged. HTTP:
 * CONNECT, or (plain) nothing, and the caller uses the absolute form. Dial never reads a byte past
 * the answer of the user's proxy.
 */
#ifndef KODA_PROXY_REACH_DIAL_H
#define KODA_PROXY_REACH_DIAL_H

#include "proxy/proxy.h"

enum dial_error {
	DIAL_OK = 0,
	DIAL_DNS, /* no such name, or an invalid answer */
	DIAL_TIMEOUT,
	DIAL_REFUSED,     /* ECONNREFUSED from every address */
	DIAL_UNREACHABLE, /* network or host */
	DIAL_ADDRESS,     /* no address of the name may be reached */
	DIAL_UPSTREAM,    /* the user's proxy refused or is unreachable */
	DIAL_RESOURCES,
};

struct dial_result {
	enum dial_error error;
	int fd; /* the callback owns it; -1: none */
	/* fd leads to this proxy, which expects the absolute form; NULL: none. */
	const struct upstream_proxy *via;
	/* On error: one sentence, also for DIAL_ADDRESS (egress_address_sentence). */
	char detail[EGRESS_SENTENCE_MAX];
};

typedef void dial_fn(void *data, const struct dial_result *result);
struct dial;
/* Start a dial on behalf of slot. plain: see above. NULL: no memory. */
struct dial *dial_start(struct proxy *p, uint64_t slot, const char *host, enum domain_kind kind,
    unsigned port, bool plain, dial_fn *fn, void *data);
void dial_cancel(struct dial *d);

#endif
