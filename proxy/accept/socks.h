/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOCKS5 (RFC 1928), no authentication, as bytes. Pure.
 */
#ifndef KODA_PROXY_ACCEPT_SOCKS_H
#define KODA_PROXY_ACCEPT_SOCKS_H

#include <stddef.h>

#include "shared/rules/domain.h"

#define SOCKS_VERSION      5
#define SOCKS_REQUEST_MAX  (4 + 1 + 255 + 2)
#define SOCKS_GREETING_MAX (2 + 255)

enum socks_reply {
	SOCKS_SUCCEEDED = 0,
	SOCKS_FAILURE = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_NETWORK_UNREACHABLE = 3,
	SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_REFUSED = 5,
	SOCKS_COMMAND = 7,
	SOCKS_ADDRESS_TYPE = 8,
};

enum socks_result {
	SOCKS_INCOMPLETE,
	SOCKS_OK,
	SOCKS_NO_METHOD, /* greeting: no method that we accept: answer 05 FF */
	SOCKS_BAD,       /* not SOCKS5: close */
	SOCKS_REFUSE,    /* request: answer ret->reply, close */
};

enum socks_result socks_greeting_parse(const void *bytes, size_t n, size_t *ret_len);

struct socks_request {
	size_t len;
	unsigned char command, atyp;
	char host[DOMAIN_HOST_MAX + 1]; /* canonical */
	enum domain_kind kind;
	unsigned port;
	enum socks_reply reply; /* of SOCKS_REFUSE */
	const char *why;
};
enum socks_result socks_request_parse(const void *bytes, size_t n, struct socks_request *ret);

/* Write a reply. The bound address is all zero, of IPv4's type, which every client understands. */
#define SOCKS_REPLY_LEN 10
void socks_reply(enum socks_reply code, unsigned char ret[SOCKS_REPLY_LEN]);

/* The client's side, for a proxy of the user's own: what to send, and how to read the answers.
 * That proxy resolves names. */
size_t socks_client_greeting(bool credentials, unsigned char buf[SOCKS_GREETING_MAX]);
size_t socks_client_login(const char *user, const char *password, unsigned char buf[3 + 255 + 255]);
size_t socks_client_request(const char *host, enum domain_kind kind, unsigned port,
    unsigned char buf[SOCKS_REQUEST_MAX]);
/* Parse the answers: the chosen method, 0 or 2; then the login's answer; then the reply (any
 * address type), exactly to its last byte. ret_code: for SOCKS_REFUSE, the other side's code. */
enum socks_result socks_client_method(const void *bytes, size_t n, bool credentials,
    size_t *ret_len, unsigned char *ret_method);
enum socks_result socks_client_logged_in(const void *bytes, size_t n, size_t *ret_len);
enum socks_result socks_client_reply(const void *bytes, size_t n, size_t *ret_len,
    unsigned char *ret_code);

#endif
