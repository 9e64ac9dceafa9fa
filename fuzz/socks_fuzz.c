/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of SOCKS 5: the input is never read beyond its end; the result does not depend on what
 * follows, and a message is incomplete until its last byte; a request that our own client side
 * writes again is the same. */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "proxy/accept/socks.h"

static enum socks_result
parse(unsigned which, const uint8_t *p, size_t n, size_t *len, struct socks_request *request)
{
	/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
	uint8_t *copy = malloc(n > 0 ? n : 1);
	enum socks_result r;
	unsigned char byte;

	must(copy != NULL);
	if (n > 0)
		memcpy(copy, p, n);
	*len = 0;
	switch (which % 5) {
	case 0:
		r = socks_greeting_parse(copy, n, len);
		must(r != SOCKS_REFUSE);
		break;
	case 1:
		r = socks_request_parse(copy, n, request);
		must(r != SOCKS_NO_METHOD);
		if (r == SOCKS_OK || r == SOCKS_REFUSE)
			*len = request->len;
		must(r != SOCKS_REFUSE || (request->why != NULL && request->reply != 0));
		break;
	case 2:
		r = socks_client_method(copy, n, which & 0x80, len, &byte);
		must(r != SOCKS_OK || byte == 0 || (byte == 2 && (which & 0x80)));
		break;
	case 3:
		r = socks_client_logged_in(copy, n, len);
		break;
	default:
		r = socks_client_reply(copy, n, len, &byte);
		must(r != SOCKS_REFUSE || byte != 0);
		break;
	}
	must(*len <= n);
	free(copy);
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct socks_request request = { 0 }, other = { 0 };
	enum socks_result r;
	size_t len, len2;

	if (size < 2)
		return 0;
	r = parse(data[0], data + 1, size - 1, &len, &request);
	if (r == SOCKS_INCOMPLETE) {
		must(size - 1 < SOCKS_REQUEST_MAX);
		return 0;
	}
	if (r == SOCKS_BAD)
		return 0;
	must(len > 0);
	must(parse(data[0], data + 1, len, &len2, &other) == r && len2 == len);
	must(parse(data[0], data + 1, len - 1, &len2, &other) == SOCKS_INCOMPLETE);
	if (data[0] % 5 == 1 && r == SOCKS_OK) {
		unsigned char buf[SOCKS_REQUEST_MAX];
		char host[DOMAIN_HOST_MAX + 1];
		enum domain_kind kind;
		size_t n;

		must(domain_host_parse(request.host, strlen(request.host), true, host, &kind) ==
		    NULL);
		must(strcmp(host, request.host) == 0 && kind == request.kind);
		must(request.port > 0 && request.port <= 65535);
		n = socks_client_request(request.host, request.kind, request.port, buf);
		must(n <= sizeof(buf));
		must(socks_request_parse(buf, n, &other) == SOCKS_OK && other.len == n);
		must(strcmp(other.host, request.host) == 0 && other.kind == request.kind &&
		    other.port == request.port);
	}
	return 0;
}
