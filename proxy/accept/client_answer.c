/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/accept/client_answer.h"

#include <string.h>

#include "proxy/accept/socks.h"

#define SOCKS4_REJECTED 91

static void
add_bytes(struct client_answer *a, const void *bytes, size_t n)
{
	memcpy(a->bytes + a->n, bytes, n);
	a->n += n;
}

static void
add_socks_reply(struct client_answer *a, enum socks_reply code)
{
	unsigned char reply[SOCKS_REPLY_LEN];

	socks_reply(code, reply);
	add_bytes(a, reply, sizeof(reply));
}

void
client_answer_opened(Koda__EgressKind kind, struct client_answer *ret)
{
	static const char opened[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	ret->n = 0;
	if (kind == KODA__EGRESS_KIND__EGRESS_KIND_SOCKS)
		add_socks_reply(ret, SOCKS_SUCCEEDED);
	else
		add_bytes(ret, opened, sizeof(opened) - 1);
}

void
client_answer_refusal(Koda__EgressKind kind, const struct refusal *r, enum koda_mode mode,
    struct client_answer *ret)
{
	ret->n = 0;
	if (kind == KODA__EGRESS_KIND__EGRESS_KIND_SOCKS)
		add_socks_reply(ret, (enum socks_reply)r->socks);
	else
		ret->n = refusal_text(r, mode, true, ret->bytes);
}

void
client_answer_socks_accepted(struct client_answer *ret)
{
	static const unsigned char accepted[] = { SOCKS_VERSION, 0 };

	ret->n = 0;
	add_bytes(ret, accepted, sizeof(accepted));
}

void
client_answer_socks_no_method(struct client_answer *ret)
{
	static const unsigned char no_method[] = { SOCKS_VERSION, 0xff };

	ret->n = 0;
	add_bytes(ret, no_method, sizeof(no_method));
}

void
client_answer_socks4(struct client_answer *ret)
{
	static const unsigned char rejected[] = { 0, SOCKS4_REJECTED, 0, 0, 0, 0, 0, 0 };

	ret->n = 0;
	add_bytes(ret, rejected, sizeof(rejected));
}

Koda__EgressKind
client_answer_kind(int first)
{
	switch (first) {
	case SOCKS_VERSION:
	case SOCKS4_VERSION:
		return KODA__EGRESS_KIND__EGRESS_KIND_SOCKS;
	case TLS_HANDSHAKE:
		return KODA__EGRESS_KIND__EGRESS_KIND_CONNECT;
	default:
		return KODA__EGRESS_KIND__EGRESS_KIND_HTTP;
	}
}

void
client_answer_unheard(const unsigned char *p, size_t n, const struct refusal *r,
    enum koda_mode mode, struct client_answer *ret)
{
	size_t len;

	ret->n = 0;
	switch (n > 0 ? p[0] : -1) {
	case SOCKS_VERSION:
		if (socks_greeting_parse(p, n, &len) != SOCKS_OK) {
			client_answer_socks_no_method(ret);
			return;
		}
		/* Do not wait for the request: the answer to it is known. */
		client_answer_socks_accepted(ret);
		add_socks_reply(ret, (enum socks_reply)r->socks);
		return;
	case SOCKS4_VERSION:
		client_answer_socks4(ret);
		return;
	case TLS_HANDSHAKE:
		return;
	default:
		client_answer_refusal(KODA__EGRESS_KIND__EGRESS_KIND_HTTP, r, mode, ret);
		return;
	}
}
