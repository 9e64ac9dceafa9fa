/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/serve/rewrite.c: the head of a request as it is passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/serve/body.h"
#include "proxy/serve/rewrite.h"
#include "shared/base/cleanup.h"

#define OUT_MAX 65536

/* Writes `what` with one of the functions, into exactly `size` bytes. */
typedef size_t write_fn(const void *what, char *buf, size_t size);

/* Checks that `want` is written if there is room for it, and that each smaller buffer is an
 * error. */
static void
check_written(write_fn *fn, const void *what, const char *want)
{
	size_t n = strlen(want);

	for (size_t size = 0; size <= n; size++) {
		/* Exactly as large, so that a write past the end is found. */
		cleanup_free char *buf = malloc(size + (size == 0));

		assert_non_null(buf);
		if (size < n) {
			assert_int_equal(fn(what, buf, size), 0);
			continue;
		}
		assert_int_equal(fn(what, buf, size), n);
		if (memcmp(buf, want, n) != 0)
			fail_msg("wrote\n%.*s\nnot\n%s", (int)n, buf, want);
	}
}

static size_t
write_request(const void *what, char *buf, size_t size)
{
	return rewrite_request(what, buf, size);
}

static size_t
write_answer(const void *what, char *buf, size_t size)
{
	return rewrite_answer(what, buf, size);
}

static size_t
write_informational(const void *what, char *buf, size_t size)
{
	const struct rewrite_answer *a = what;

	return rewrite_informational(a->head, a->bytes, buf, size);
}

static size_t
write_switch(const void *what, char *buf, size_t size)
{
	const struct rewrite_answer *a = what;

	return rewrite_switch(a->head, a->bytes, buf, size);
}

/* Parses a copy that ends with the head. */
static void
parse_request(const char *text, struct http_head *ret, char **ret_copy)
{
	char *copy = *ret_copy = malloc(strlen(text));
	const char *why = "";

	assert_non_null(copy);
	memcpy(copy, text, strlen(text));
	if (http_request_parse(copy, strlen(text), ret, &why) != HTTP_OK)
		fail_msg("%s: %s", text, why);
	assert_int_equal(ret->len, strlen(text));
}

static void
parse_response(const char *text, bool to_head, struct http_head *ret, char **ret_copy)
{
	char *copy = *ret_copy = malloc(strlen(text));
	const char *why = "";

	assert_non_null(copy);
	memcpy(copy, text, strlen(text));
	if (http_response_parse(copy, strlen(text), to_head, false, ret, &why) != HTTP_OK)
		fail_msg("%s: %s", text, why);
	assert_int_equal(ret->len, strlen(text));
}

/* ---- requests ---- */

static const struct upstream_proxy plain_proxy = { .kind = UPSTREAM_HTTP };
static const struct upstream_proxy login_proxy = {
	.kind = UPSTREAM_HTTP,
	.user = "Aladdin",
	.password = "open sesame",
	.has_credentials = true,
};
static const struct upstream_proxy no_password = {
	.kind = UPSTREAM_HTTP,
	.user = "u",
	.has_credentials = true,
};

#define E "\r\n"
/* A request with these fields, and its rewritten form. */
#define IN(fields)      "GET http://a.test/x HTTP/1.1" E "Host: a.test" E fields E
#define IN_0(fields)    "GET http://a.test/x HTTP/1.0" E "Host: a.test" E fields E
#define POST(fields)    "POST http://a.test/x HTTP/1.1" E "Host: a.test" E fields E
#define OUT(fields)     "GET /x HTTP/1.1" E "Host: a.test" E fields E
#define P_OUT(fields)   "POST /x HTTP/1.1" E "Host: a.test" E fields E
#define VIA_OUT(fields) "GET http://a.test/x HTTP/1.1" E "Host: a.test" E fields E
#define WS              "Connection: Upgrade" E "Upgrade: websocket" E

static const struct {
	const char *label, *in, *want;
	const char *host; /* NULL: a.test */
	unsigned port;    /* 0: 80 */
	bool tls, close;
	const struct upstream_proxy *via;
	bool upgrades;
} requests[] = {
	/* clang-format off */
	{ "absolute form becomes origin form", .in = IN(""), .want = OUT("") },
	{ "the query stays", .in = "GET http://a.test/x?y=%20z HTTP/1.1" E E, .want = "GET /x?y=%20z HTTP/1.1" E "Host: a.test" E E },
	{ "no path is /", .in = "GET http://a.test HTTP/1.1" E E, .want = "GET / HTTP/1.1" E "Host: a.test" E E },
	{ "OPTIONS without a path is *", .in = "OPTIONS http://a.test HTTP/1.1" E E, .want = "OPTIONS * HTTP/1.1" E "Host: a.test" E E },
	{ "origin form stays", .in = "GET /x HTTP/1.1" E "Host: a.test" E E, .want = OUT("") },
	{ "a path that looks like a target", .in = "GET //b.test/x HTTP/1.1" E "Host: a.test" E E, .want = "GET //b.test/x HTTP/1.1" E "Host: a.test" E E },
	{ "a method of its own", .in = "M-SEARCH /x HTTP/1.1" E "Host: a.test" E E, .want = "M-SEARCH /x HTTP/1.1" E "Host: a.test" E E },
	{ "an empty line before it is left out", .in = E "GET /x HTTP/1.1" E "Host: a.test" E E, .want = OUT("") },

	{ "Host is the target, not the field", .in = "GET /x HTTP/1.1" E "Host: b.test" E E, .want = OUT("") },
	{ "Host as it is judged, not as it is spelled", .in = "GET /x HTTP/1.1" E "hOST: A.Test." E E, .want = OUT("") },
	{ "Host where there was none", .in = "GET http://a.test/x HTTP/1.0" E E, .want = OUT("") },
	{ "Host with another port", .in = IN(""), .want = "GET /x HTTP/1.1" E "Host: a.test:8080" E E, .port = 8080 },
	{ "Host with the port of https, in http", .in = IN(""), .want = "GET /x HTTP/1.1" E "Host: a.test:443" E E, .port = 443 },
	{ "Host without the port of https", .in = IN(""), .want = OUT(""), .port = 443, .tls = true },
	{ "Host with the port of http, in https", .in = IN(""), .want = "GET /x HTTP/1.1" E "Host: a.test:80" E E, .port = 80, .tls = true },
	{ "Host with the largest port", .in = IN(""), .want = "GET /x HTTP/1.1" E "Host: a.test:65535" E E, .port = 65535 },
	{ "Host is an address", .in = IN(""), .want = "GET /x HTTP/1.1" E "Host: [2001:db8::1]:81" E E, .host = "[2001:db8::1]", .port = 81 },

	{ "fields in their order", .in = IN("B: 2" E "a: 1" E "B: 3" E), .want = OUT("B: 2" E "a: 1" E "B: 3" E) },
	{ "white space around a value", .in = IN("A:1" E "B: \t 2 3 \t" E), .want = OUT("A: 1" E "B: 2 3" E) },
	{ "an empty value", .in = IN("A:" E), .want = OUT("A: " E) },
	{ "a value that is not ASCII", .in = IN("A: \xc3\xa4\x80" E), .want = OUT("A: \xc3\xa4\x80" E) },
	{ "Authorization, Cookie, Expect and Via go on", .in = IN("Authorization: Basic eA==" E "Cookie: a=b" E "Expect: 100-continue" E "Via: 1.1 x" E),
	    .want = OUT("Authorization: Basic eA==" E "Cookie: a=b" E "Expect: 100-continue" E "Via: 1.1 x" E) },

	{ "Connection: what it lists", .in = IN("Connection: X-A, x-b" E "X-a: 1" E "X-B: 2" E "X-C: 3" E), .want = OUT("X-C: 3" E) },
	{ "Connection: lists in two fields, one behind", .in = IN("Connection: X-A" E "X-A: 1" E "X-B: 2" E "CONNECTION:,x-B," E), .want = OUT("") },
	{ "Connection: a name listed is that name alone", .in = IN("Connection: X-A" E "X-AB: 1" E "X-: 2" E), .want = OUT("X-AB: 1" E "X-: 2" E) },
	{ "Connection: keep-alive", .in = IN("Connection: keep-alive" E "Keep-Alive: timeout=5" E), .want = OUT("") },
	{ "Connection: close is ours to say", .in = IN("Connection: close" E), .want = OUT("") },
	{ "Keep-Alive, not listed", .in = IN("Keep-Alive: timeout=5" E), .want = OUT("") },
	{ "TE", .in = IN("TE: trailers" E), .want = OUT("") },
	{ "Trailer", .in = POST("Transfer-Encoding: chunked" E "Trailer: X-Sum" E), .want = P_OUT("Transfer-Encoding: chunked" E) },
	{ "Proxy-Authorization", .in = IN("Proxy-Authorization: Basic eA==" E), .want = OUT("") },
	{ "Proxy-Connection", .in = IN("proxy-connection: keep-alive" E), .want = OUT("") },
	{ "Proxy- anything", .in = IN("PROXY-X: 1" E "Proxy: 2" E "X-Proxy-X: 3" E), .want = OUT("Proxy: 2" E "X-Proxy-X: 3" E) },
	{ "HTTP2-Settings, not listed", .in = IN("HTTP2-Settings: AAMAAABk" E), .want = OUT("") },

	{ "Content-Length is kept", .in = POST("Content-Length: 12" E), .want = P_OUT("Content-Length: 12" E) },
	{ "Content-Length: 0 is kept", .in = POST("Content-Length: 0" E), .want = P_OUT("Content-Length: 0" E) },
	{ "Content-Length, the largest", .in = POST("Content-Length: 9223372036854775807" E), .want = P_OUT("Content-Length: 9223372036854775807" E) },
	{ "Content-Length stands once, behind", .in = POST("content-length:12" E "A: 1" E), .want = P_OUT("A: 1" E "Content-Length: 12" E) },
	{ "Content-Length that Connection lists is still framing", .in = POST("Connection: content-length" E "Content-Length: 12" E), .want = P_OUT("Content-Length: 12" E) },
	{ "chunked is framed anew", .in = POST("transfer-encoding: CHUNKED" E "A: 1" E), .want = P_OUT("A: 1" E "Transfer-Encoding: chunked" E) },
	{ "chunked that Connection lists is still framing", .in = POST("Connection: transfer-encoding" E "Transfer-Encoding: chunked" E), .want = P_OUT("Transfer-Encoding: chunked" E) },
	{ "no body, no framing", .in = POST(""), .want = P_OUT("") },

	{ "the last of its client", .in = IN("A: 1" E), .want = OUT("A: 1" E "Connection: close" E), .close = true },
	{ "HTTP/1.0 becomes 1.1", .in = IN_0("A: 1" E), .want = OUT("A: 1" E "Connection: close" E), .close = true },
	{ "HTTP/1.0 that is kept", .in = IN_0("Connection: keep-alive" E), .want = OUT("") },

	{ "Upgrade", .in = IN(WS "Sec-WebSocket-Version: 13" E), .want = OUT("Sec-WebSocket-Version: 13" E WS), .upgrades = true },
	{ "Upgrade: close is not said with it", .in = IN(WS), .want = OUT(WS), .close = true, .upgrades = true },
	{ "Upgrade: inside TLS", .in = IN(WS), .want = OUT(WS), .port = 443, .tls = true, .upgrades = true },
	{ "Upgrade: with an empty body", .in = IN(WS "Content-Length: 0" E), .want = OUT("Content-Length: 0" E WS), .upgrades = true },
	{ "Upgrade: not with a body", .in = POST(WS "Content-Length: 1" E), .want = P_OUT("Content-Length: 1" E) },
	{ "Upgrade: not with a chunked body", .in = POST(WS "Transfer-Encoding: chunked" E), .want = P_OUT("Transfer-Encoding: chunked" E) },
	{ "Upgrade: not from HTTP/1.0", .in = IN_0(WS), .want = OUT("Connection: close" E), .close = true },
	{ "Upgrade: not when Connection does not say so", .in = IN("Upgrade: websocket" E), .want = OUT("") },
	{ "Upgrade: Connection alone", .in = IN("Connection: Upgrade" E), .want = OUT("") },
	{ "Upgrade: not to a proxy", .in = IN(WS), .want = VIA_OUT(""), .via = &plain_proxy },
	{ "Upgrade: not to a proxy, and it closes", .in = IN(WS), .want = VIA_OUT("Connection: close" E), .via = &plain_proxy, .close = true },
	{ "Upgrade: h2c", .in = IN("Connection: Upgrade, HTTP2-Settings" E "Upgrade: h2c" E "HTTP2-Settings: AAMAAABk" E), .want = OUT("") },
	{ "Upgrade: h2c, and it closes", .in = IN("Connection: Upgrade" E "Upgrade: H2C" E), .want = OUT("Connection: close" E), .close = true },
	{ "Upgrade: TLS", .in = IN("Connection: Upgrade" E "Upgrade: TLS/1.0, HTTP/1.1" E), .want = OUT("Connection: Upgrade" E "Upgrade: HTTP/1.1" E), .upgrades = true },
	{ "Upgrade: h2", .in = IN("Connection: Upgrade" E "Upgrade: h2" E), .want = OUT("") },
	{ "Upgrade: a version does not hide it", .in = IN("Connection: Upgrade" E "Upgrade: h2c/1, tls/, h2/" E), .want = OUT("") },
	{ "Upgrade: what may, of a list", .in = IN("Connection: Upgrade" E "Upgrade: h2c ,\twebsocket ,, TLS, foo/2" E), .want = OUT("Connection: Upgrade" E "Upgrade: websocket, foo/2" E), .upgrades = true },
	{ "Upgrade: of two fields", .in = IN("Connection: Upgrade" E "Upgrade: h2c" E "A: 1" E "Upgrade: websocket" E), .want = OUT("A: 1" E WS), .upgrades = true },
	{ "Upgrade: a longer name is another", .in = IN("Connection: Upgrade" E "Upgrade: h2cx" E), .want = OUT("Connection: Upgrade" E "Upgrade: h2cx" E), .upgrades = true },
	{ "Upgrade: nothing but commas", .in = IN("Connection: Upgrade" E "Upgrade: , ," E), .want = OUT("") },

	{ "by a proxy: absolute form", .in = IN("A: 1" E), .want = VIA_OUT("A: 1" E), .via = &plain_proxy },
	{ "by a proxy: the port", .in = IN(""), .want = "GET http://a.test:81/x HTTP/1.1" E "Host: a.test:81" E E, .port = 81, .via = &plain_proxy },
	{ "by a proxy: the target, not the field", .in = "GET /x HTTP/1.1" E "Host: b.test" E E, .want = VIA_OUT(""), .via = &plain_proxy },
	{ "by a proxy: an address", .in = "GET /x HTTP/1.1" E "Host: a.test" E E, .want = "GET http://[::1]/x HTTP/1.1" E "Host: [::1]" E E, .host = "[::1]", .via = &plain_proxy },
	{ "by a proxy: OPTIONS *", .in = "OPTIONS * HTTP/1.1" E "Host: a.test" E E, .want = "OPTIONS http://a.test HTTP/1.1" E "Host: a.test" E E, .via = &plain_proxy },
	{ "by a proxy: a path that begins so", .in = "GET /* HTTP/1.1" E "Host: a.test" E E, .want = "GET http://a.test/* HTTP/1.1" E "Host: a.test" E E, .via = &plain_proxy },
	{ "by a proxy: its credentials", .in = IN("A: 1" E), .want = VIA_OUT("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" E "A: 1" E), .via = &login_proxy },
	{ "by a proxy: a user without a password", .in = IN(""), .want = VIA_OUT("Proxy-Authorization: Basic dTo=" E), .via = &no_password },
	{ "by a proxy: ours, not the client's", .in = IN("Proxy-Authorization: Basic eA==" E), .want = VIA_OUT("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" E), .via = &login_proxy },
	{ "by a proxy: the client's are not for it", .in = IN("Proxy-Authorization: Basic eA==" E), .want = VIA_OUT(""), .via = &plain_proxy },
	{ "by a proxy: framing", .in = POST("Content-Length: 3" E), .want = "POST http://a.test/x HTTP/1.1" E "Host: a.test" E "Content-Length: 3" E E, .via = &plain_proxy },
	/* clang-format on */
};

static void
request_case(void **state)
{
	size_t i = (size_t)*state;
	struct http_head head, again;
	cleanup_free char *bytes = NULL, *passed = NULL;
	struct rewrite_request r = {
		.head = &head,
		.host = requests[i].host != NULL ? requests[i].host : "a.test",
		.port = requests[i].port != 0 ? requests[i].port : 80,
		.tls = requests[i].tls,
		.close = requests[i].close,
		.via = requests[i].via,
	};

	parse_request(requests[i].in, &head, &bytes);
	check_written(write_request, &r, requests[i].want);
	assert_int_equal(rewrite_upgrades(&r), requests[i].upgrades);
	/* The next reader sees the same request. */
	parse_request(requests[i].want, &again, &passed);
	assert_int_equal(again.minor, 1);
	assert_string_equal(again.host, r.host);
	assert_int_equal(again.body, head.body);
	assert_int_equal(again.length, head.length);
	assert_int_equal(again.path.n, head.path.n);
	assert_memory_equal(again.path.p, head.path.p, head.path.n);
	assert_int_equal(again.upgrade, requests[i].upgrades);
	assert_false(again.host_differs);
}

/* ---- answers ---- */

#define R(fields)  "HTTP/1.1 200 OK" E fields E
#define R0(fields) "HTTP/1.0 200 OK" E fields E

static const struct {
	const char *label, *in, *want;
	bool to_head, old, close; /* old: the client uses HTTP/1.0 */
	enum http_body framing;
} answers[] = {
	/* clang-format off */
	{ "Content-Length is kept", R("Content-Length: 5" E), R("Content-Length: 5" E), .framing = HTTP_BODY_LENGTH },
	{ "Content-Length stands once, behind", R("content-length:5" E "A: 1" E), R("A: 1" E "Content-Length: 5" E), .framing = HTTP_BODY_LENGTH },
	{ "chunked is framed anew", R("transfer-encoding: Chunked" E "A: 1" E), R("A: 1" E "Transfer-Encoding: chunked" E), .framing = HTTP_BODY_CHUNKED },
	{ "what ends with the connection is chunked", R("A: 1" E), R("A: 1" E "Transfer-Encoding: chunked" E), .framing = HTTP_BODY_CHUNKED },
	{ "the reason is the server's", "HTTP/1.1 418 I'm a  teapot" E "Content-Length: 0" E E, "HTTP/1.1 418 I'm a  teapot" E "Content-Length: 0" E E, .framing = HTTP_BODY_LENGTH },
	{ "no reason", "HTTP/1.1 404 " E "Content-Length: 0" E E, "HTTP/1.1 404 " E "Content-Length: 0" E E, .framing = HTTP_BODY_LENGTH },
	{ "no reason and no blank", "HTTP/1.1 404" E "Content-Length: 0" E E, "HTTP/1.1 404" E "Content-Length: 0" E E, .framing = HTTP_BODY_LENGTH },
	{ "HTTP/1.0 becomes 1.1", R0("Content-Length: 5" E), R("Content-Length: 5" E), .framing = HTTP_BODY_LENGTH },
	{ "HTTP/1.0 without a length is chunked", R0(""), R("Transfer-Encoding: chunked" E), .framing = HTTP_BODY_CHUNKED },
	{ "204", "HTTP/1.1 204 No Content" E "Content-Length: 5" E E, "HTTP/1.1 204 No Content" E E, .framing = HTTP_BODY_NONE },
	{ "304 tells of a length", "HTTP/1.1 304 Not Modified" E "Content-Length: 5" E E, "HTTP/1.1 304 Not Modified" E "Content-Length: 5" E E, .framing = HTTP_BODY_NONE },
	{ "HEAD tells of a length", R("Content-Length: 5" E "A: 1" E), R("Content-Length: 5" E "A: 1" E), .to_head = true, .framing = HTTP_BODY_NONE },
	{ "HEAD without a length", R("Transfer-Encoding: chunked" E), R(""), .to_head = true, .framing = HTTP_BODY_NONE },
	{ "fields in their order", R("Set-Cookie: a=1" E "B:2" E "Set-Cookie: c=3" E "Content-Length: 0" E), R("Set-Cookie: a=1" E "B: 2" E "Set-Cookie: c=3" E "Content-Length: 0" E), .framing = HTTP_BODY_LENGTH },
	{ "Connection: what it lists", R("X-A: 1" E "Connection: x-a, close" E "Content-Length: 0" E), R("Content-Length: 0" E), .framing = HTTP_BODY_LENGTH },
	{ "Keep-Alive, TE, Trailer, Proxy-*", R("Keep-Alive: max=1" E "TE: x" E "Trailer: X" E "Proxy-Authenticate: Basic" E "Proxy-Connection: close" E "WWW-Authenticate: Basic" E "Content-Length: 0" E),
	    R("WWW-Authenticate: Basic" E "Content-Length: 0" E), .framing = HTTP_BODY_LENGTH },
	{ "Upgrade that is only offered", R("Connection: Upgrade" E "Upgrade: h2c, websocket" E "HTTP2-Settings: A" E "Content-Length: 0" E), R("Content-Length: 0" E), .framing = HTTP_BODY_LENGTH },
	{ "Host", R("Host: b.test" E "Content-Length: 0" E), R("Content-Length: 0" E), .framing = HTTP_BODY_LENGTH },
	{ "the last one", R("Content-Length: 5" E), R("Content-Length: 5" E "Connection: close" E), .close = true, .framing = HTTP_BODY_LENGTH },
	{ "a client of HTTP/1.0: kept", R("Content-Length: 5" E), R("Content-Length: 5" E "Connection: keep-alive" E), .old = true, .framing = HTTP_BODY_LENGTH },
	{ "a client of HTTP/1.0: not kept", R("Content-Length: 5" E), R("Content-Length: 5" E "Connection: close" E), .old = true, .close = true, .framing = HTTP_BODY_LENGTH },
	{ "a client of HTTP/1.0: no chunks", R("Transfer-Encoding: chunked" E), R("Connection: close" E), .old = true, .close = true, .framing = HTTP_BODY_CLOSE },
	{ "a client of HTTP/1.0: until the end", R(""), R("Connection: close" E), .old = true, .close = true, .framing = HTTP_BODY_CLOSE },
	{ "a client of HTTP/1.0: no body", "HTTP/1.1 204 No Content" E E, "HTTP/1.1 204 No Content" E "Connection: keep-alive" E E, .old = true, .framing = HTTP_BODY_NONE },
	/* clang-format on */
};

static void
answer_case(void **state)
{
	size_t i = (size_t)*state;
	struct http_head head, again;
	cleanup_free char *bytes = NULL, *passed = NULL;
	struct rewrite_answer a = {
		.head = &head,
		.to_head = answers[i].to_head,
		.client_minor = answers[i].old ? 0 : 1,
		.close = answers[i].close,
	};

	parse_response(answers[i].in, answers[i].to_head, &head, &bytes);
	a.bytes = bytes;
	assert_int_equal(rewrite_framing(&head, a.client_minor), answers[i].framing);
	check_written(write_answer, &a, answers[i].want);
	parse_response(answers[i].want, answers[i].to_head, &again, &passed);
	assert_int_equal(again.status, head.status);
	assert_int_equal(again.body, answers[i].framing);
	assert_int_equal(again.length, head.length);
}

static const struct {
	const char *label, *in, *want; /* want: NULL for a 101 that may not pass */
} interims[] = {
	/* clang-format off */
	{ "100", "HTTP/1.0 100 Continue" E E, "HTTP/1.1 100 Continue" E E },
	{ "103: fields, without those of one hop", "HTTP/1.1 103 Early Hints" E "Link: </a>" E "Connection: X-A" E "X-A: 1" E "Content-Length: 5" E E,
	    "HTTP/1.1 103 Early Hints" E "Link: </a>" E E },
	{ "102: no Upgrade in it", "HTTP/1.1 102 Processing" E WS E, "HTTP/1.1 102 Processing" E E },
	{ "101: its Upgrade, behind", "HTTP/1.1 101 Switching Protocols" E WS "Sec-WebSocket-Accept: x" E E,
	    "HTTP/1.1 101 Switching Protocols" E "Sec-WebSocket-Accept: x" E WS E },
	{ "101: no framing", "HTTP/1.1 101 Switching Protocols" E WS "Content-Length: 5" E E,
	    "HTTP/1.1 101 Switching Protocols" E WS E },
	{ "101 to h2c", "HTTP/1.1 101 Switching Protocols" E "Connection: Upgrade" E "Upgrade: h2c" E E, NULL },
	{ "101 to TLS", "HTTP/1.1 101 Switching Protocols" E "Connection: Upgrade" E "Upgrade: tls/1.2" E E, NULL },
	{ "101 to nothing", "HTTP/1.1 101 Switching Protocols" E "Connection: Upgrade" E E, NULL },
	/* clang-format on */
};

static void
interim_case(void **state)
{
	size_t i = (size_t)*state;
	struct http_head head;
	cleanup_free char *bytes = NULL;
	struct rewrite_answer a = { .head = &head };

	parse_response(interims[i].in, false, &head, &bytes);
	a.bytes = bytes;
	if (head.status == 101)
		assert_int_equal(rewrite_may_switch(&head), interims[i].want != NULL);
	if (interims[i].want != NULL)
		check_written(head.status == 101 ? write_switch : write_informational, &a,
		    interims[i].want);
}

/* ---- chunks ---- */

struct content {
	const char *p;
	size_t n;
};

static size_t
write_chunk(const void *what, char *buf, size_t size)
{
	const struct content *c = what;

	return rewrite_chunk(c->p, c->n, buf, size);
}

static void
chunks(void **state)
{
	const struct content one = { "a", 1 }, many = { "0123456789abcdefg", 17 },
			     none = { NULL, 0 };

	check_written(write_chunk, &one, "1" E "a" E);
	check_written(write_chunk, &many, "11" E "0123456789abcdefg" E);
	check_written(write_chunk, &none, "0" E E);
}

/* The room reserved for a chunk is enough, and a reader finds what was written. */
static void
a_chunk_and_the_end_fit(void **state)
{
	size_t n = 0xfffff, most = n + REWRITE_CHUNK_MAX, len, taken, got, last;
	cleanup_free char *content = malloc(n), *buf = malloc(most);
	struct http_head head = { .body = HTTP_BODY_CHUNKED };
	const char *run, *why = "";
	struct body b;

	assert_non_null(content);
	assert_non_null(buf);
	for (size_t i = 0; i < n; i++)
		content[i] = (char)(i % 251);
	len = rewrite_chunk(content, n, buf, most);
	assert_true(len > n);
	last = rewrite_chunk(NULL, 0, buf + len, most - len);
	assert_int_equal(last, 5);
	len += last;
	body_init(&b, &head);
	got = 0;
	for (size_t at = 0; at < len; at += taken) {
		size_t part;

		assert_int_not_equal(body_take(&b, buf + at, len - at, &taken, &run, &part, &why),
		    HTTP_BAD);
		assert_true(taken > 0);
		assert_true(got + part <= n);
		assert_memory_equal(run, content + got, part);
		got += part;
	}
	assert_true(body_over(&b));
	assert_int_equal(got, n);
}

/* ---- bounds ---- */

/* A head with as many fields as are allowed: rewriting adds a blank to each. */
static void
it_grows_and_is_bounded(void **state)
{
	char text[2048] = "GET /x HTTP/1.1" E "Host: a.test" E;
	size_t grown = HTTP_FIELDS_MAX - 1, n;
	cleanup_free char *bytes = NULL, *buf = NULL;
	struct http_head head;
	struct rewrite_request r = { .head = &head, .host = "a.test", .port = 80 };

	for (size_t i = 0; i < grown; i++)
		strcat(text, "A:b" E);
	strcat(text, E);
	parse_request(text, &head, &bytes);
	n = head.len + grown;
	buf = malloc(n);
	assert_non_null(buf);
	assert_int_equal(rewrite_request(&r, buf, head.len), 0);
	assert_int_equal(rewrite_request(&r, buf, n - 1), 0);
	assert_int_equal(rewrite_request(&r, buf, n), n);
}

/* Credentials of the maximum length, without a NUL that ends them early. */
static void
long_credentials_fit(void **state)
{
	struct upstream_proxy via = { .kind = UPSTREAM_HTTP, .has_credentials = true };
	struct http_head head;
	cleanup_free char *bytes = NULL;
	struct rewrite_request r = { .head = &head, .host = "a.test", .port = 80, .via = &via };
	size_t both = 2 * UPSTREAM_CREDENTIALS_MAX + 1;
	size_t want = strlen(VIA_OUT("Proxy-Authorization: Basic " E)) + (both + 2) / 3 * 4;
	cleanup_free char *buf = malloc(OUT_MAX);

	assert_non_null(buf);
	parse_request(IN(""), &head, &bytes);
	memset(via.user, 'u', UPSTREAM_CREDENTIALS_MAX);
	memset(via.password, 'p', UPSTREAM_CREDENTIALS_MAX);
	assert_int_equal(rewrite_request(&r, buf, want - 1), 0);
	assert_int_equal(rewrite_request(&r, buf, OUT_MAX), want);
}

/* No buffer at all, as for a caller without memory. */
static void
nothing_fits_into_nothing(void **state)
{
	struct http_head head;
	cleanup_free char *bytes = NULL;
	struct rewrite_request r = { .head = &head, .host = "a.test", .port = 80 };

	parse_request(IN(""), &head, &bytes);
	assert_int_equal(rewrite_request(&r, NULL, 0), 0);
	assert_int_equal(rewrite_chunk(NULL, 0, NULL, 0), 0);
}

int
main(void)
{
	struct CMUnitTest
	    tests[N_ELEMENTS(requests) + N_ELEMENTS(answers) + N_ELEMENTS(interims) + 5];
	size_t n = 0;

#define ADD(cases, run)                                                                            \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ cases[i].label, run, NULL, NULL, (void *)i }
	ADD(requests, request_case);
	ADD(answers, answer_case);
	ADD(interims, interim_case);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(chunks);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_chunk_and_the_end_fit);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(it_grows_and_is_bounded);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_credentials_fit);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_fits_into_nothing);
	return cmocka_run_group_tests_name("rewrite", tests, NULL, NULL);
}
