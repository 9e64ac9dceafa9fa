/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client is answered while it is accepted, in the protocol that it speaks: HTTP, SOCKS5 or,
 * as far as a refusal goes, SOCKS4. Pure: writes bytes into an answer.
 */
#ifndef KODA_PROXY_ACCEPT_CLIENT_ANSWER_H
#define KODA_PROXY_ACCEPT_CLIENT_ANSWER_H

#include "proxy/gate.h"

#define SOCKS4_VERSION 4
#define TLS_HANDSHAKE  0x16

struct client_answer {
	char bytes[REFUSAL_TEXT_MAX];
	size_t n; /* 0: there is nothing to say in its protocol */
};

/* The tunnel is open. */
void client_answer_opened(Koda__EgressKind kind, struct client_answer *ret);
/* A refusal. kind: SOCKS, or anything else for HTTP. */
void client_answer_refusal(Koda__EgressKind kind, const struct refusal *r, enum koda_mode mode,
    struct client_answer *ret);
/* To a greeting of SOCKS5: no login is needed; none of its methods is supported. */
void client_answer_socks_accepted(struct client_answer *ret);
void client_answer_socks_no_method(struct client_answer *ret);
/* SOCKS4 is refused. */
void client_answer_socks4(struct client_answer *ret);

/* By its first byte (-1: it has sent none): what a client that is refused unheard wants to be. */
Koda__EgressKind client_answer_kind(int first);
/* A refusal for a client of whose request only the first n bytes, or none, have been read. */
void client_answer_unheard(const unsigned char *p, size_t n, const struct refusal *r,
    enum koda_mode mode, struct client_answer *ret);

#endif
