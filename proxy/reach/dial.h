/*
 * A judged name -> a connected TCP socket (non-blocking, close-on-exec, TCP_NODELAY, keep-alive). Resolves (a literal needs
 * none), has each address judged (egress_judge_address; own: bind() to it would succeed) and connects to those that may be,
 * in the resolver's order, the next one 250 ms after the last (RFC 8305), families in turn. The address that was judged is
 * the one in connect(). A domain of the policy's socket_map is connected by the host.
 *
 * With a proxy of the user's own (shared/rules/upstream): the name is resolved here too where that works, and refused if it leads
 * where it may not; what cannot be resolved here is resolved there. The proxy's own address is the user's business and
 * is not judged. HTTP: CONNECT, or (plain) nothing, and the caller speaks absolute form. Not a byte behind the
 * answer of the user's proxy is read.
 */
#ifndef KODA_PROXY_REACH_DIAL_H
#define KODA_PROXY_REACH_DIAL_H

#include "proxy/proxy.h"

enum dial_error {
	DIAL_OK = 0,
	DIAL_DNS, /* no such name, or no answer that makes sense */
	DIAL_TIMEOUT,
	DIAL_REFUSED,     /* ECONNREFUSED by all */
	DIAL_UNREACHABLE, /* network or host */
	DIAL_ADDRESS,     /* every address it has may not be reached */
	DIAL_UPSTREAM,    /* the user's proxy said no, or is not there */
	DIAL_RESOURCES,
};

struct dial_result {
	enum dial_error error;
	int fd;                           /* the callee's from now on; -1 */
	const struct upstream_proxy *via; /* fd leads to it, and it expects absolute form */
	char detail
	    [EGRESS_SENTENCE_MAX]; /* of an error: one sentence, also DIAL_ADDRESS (egress_address_sentence) */
};

typedef void dial_fn(void *data, const struct dial_result *result);
struct dial;
/* slot: on whose behalf. plain: see above. NULL: no memory. */
struct dial *dial_start(struct proxy *p, uint64_t slot, const char *host, enum domain_kind kind,
    unsigned port, bool plain, dial_fn *fn, void *data);
void dial_cancel(struct dial *d);

#endif
