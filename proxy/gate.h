/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a host and a port to a connection or a refusal: canonical target -> egress_judge() -> ask ->
 * dial, and the account. Nothing else dials. The gate reports refusals and failures; the caller
 * only answers its client.
 */
#ifndef KODA_PROXY_GATE_H
#define KODA_PROXY_GATE_H

#include "proxy/control.h"
#include "proxy/reach/dial.h"
#include "proxy/target.h"

enum gate_flags {
	GATE_PLAIN = 1 << 0, /* plain HTTP: use the user's proxy for plain HTTP */
	/* A connection to this target exists and is used again: judge (and ask), do not dial. */
	GATE_JUDGE_ONLY = 1 << 1,
};

/* How to answer the client. HTTP status / SOCKS code by cause: 403/2 denied; 502/1 DNS failed;
 * 502/4 unreachable; 502/5 refused; 504/1 timeout; 400/1 malformed; 431; 408; 503. */
struct refusal {
	int status;          /* HTTP; 0: not refused */
	unsigned char socks; /* RFC 1928 */
	char rule[64];
	char host[DOMAIN_HOST_MAX + 8]; /* host:port, or "" */
	char sentence[EGRESS_SENTENCE_MAX];
};

struct gate_answer {
	struct refusal refusal;
	/* Valid when refusal.status is 0: */
	int fd; /* the callback owns it; -1 with GATE_JUDGE_ONLY */
	/* fd leads to this HTTP proxy, which expects the absolute form (GATE_PLAIN only); NULL:
	 * none */
	const struct upstream_proxy *via;
	struct egress_verdict verdict;
	struct account *account; /* open, owned by the callback; NULL with GATE_JUDGE_ONLY */
};

typedef void gate_fn(void *data, const struct gate_answer *answer);
struct gate;
/* NULL: no memory. */
struct gate *gate_start(struct listener *l, Koda__EgressKind kind, const struct target *target,
    unsigned flags, gate_fn *fn, void *data);
void gate_cancel(struct gate *g);
/* Does it wait for the user's answer? Then a client that ends its side has given up. */
bool gate_asks(const struct gate *g);

/* A refusal that did not come from a gate: report it (outcome INVALID, DENIED or FAILED, by
 * status) and fill *ret. */
void gate_refuse(struct listener *l, Koda__EgressKind kind, const struct target *target, int status,
    const char *rule, const char *why, struct refusal *ret);

/* Write "HTTP/1.1 403 Forbidden", a Koda-Sandbox header and one line of text. Returns the
 * length. close: Connection: close. */
#define REFUSAL_TEXT_MAX 2048
size_t refusal_text(const struct refusal *r, enum koda_mode mode, bool close,
    char buf[REFUSAL_TEXT_MAX]);

#endif
