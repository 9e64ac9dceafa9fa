/*
 * From a host and a port to a way out, or to a refusal: canonical target -> egress_judge -> ask -> dial, and the account.
 * There is no other way to dial. What is refused or fails is reported here; the caller only tells its client.
 */
#ifndef KODA_PROXY_GATE_H
#define KODA_PROXY_GATE_H

#include "proxy/control.h"
#include "proxy/reach/dial.h"

struct target {
	char host[DOMAIN_HOST_MAX + 1]; /* canonical */
	enum domain_kind kind;
	unsigned port;
};

enum gate_flags {
	GATE_PLAIN = 1 << 0, /* plain HTTP: by the user's proxy for that */
	/* A connection to this very target is there and goes on being used: judge (and ask), do not dial. */
	GATE_JUDGE_ONLY = 1 << 1,
};

/* How a client is told. status and socks by what happened: 403/2 denied; 502/1, 4, 5 DNS failed, unreachable, refused;
 * 504/1 timeout; 400/1 malformed; 431; 408; 503. */
struct refusal {
	int status;          /* HTTP; 0: it is not refused */
	unsigned char socks; /* RFC 1928 */
	char rule[64];
	char host[DOMAIN_HOST_MAX + 8]; /* host:port, or "" */
	char sentence[EGRESS_SENTENCE_MAX];
};

struct gate_answer {
	struct refusal refusal;
	/* When refusal.status is 0: */
	int fd; /* the caller's; -1 with GATE_JUDGE_ONLY */
	const struct upstream_proxy
	    *via; /* fd leads to that HTTP proxy, in absolute form (GATE_PLAIN only) */
	struct egress_verdict verdict;
	struct account *account; /* open, the caller's; NULL with GATE_JUDGE_ONLY */
};

typedef void gate_fn(void *data, const struct gate_answer *answer);
struct gate;
/* NULL: no memory. */
struct gate *gate_start(struct listener *l, Koda__EgressKind kind, const struct target *target,
    unsigned flags, gate_fn *fn, void *data);
void gate_cancel(struct gate *g);
/* Does it wait for somebody's answer? Then a client that ends its side has given up. */
bool gate_asks(const struct gate *g);

/* Refusals that did not come through a gate: reported (outcome INVALID or DENIED) and filled in. */
void gate_refuse(struct listener *l, Koda__EgressKind kind, const struct target *target, int status,
    const char *rule, const char *why, struct refusal *ret);

/* "HTTP/1.1 403 Forbidden", Koda-Sandbox header, one line of text. Returns its length. close: Connection: close. */
#define REFUSAL_TEXT_MAX 2048
size_t refusal_text(const struct refusal *r, enum koda_mode mode, bool close,
    char buf[REFUSAL_TEXT_MAX]);

#endif
