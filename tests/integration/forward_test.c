/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP through the proxy: what the origin and the client see, byte by byte. This process is both
 * client and origin; the proxy between them is the real program.
 */
#include "tests/kit/cases.h"
#include "tests/kit/script.h"

#define ORIGIN_PORT 8001
#define OTHER_PORT  8002
#define HOST        "127.0.0.1:8001"

static struct rig proxy;
static unsigned port;
static int origin = -1, other = -1, plain = -1;

static int
setup(void **state)
{
	static const char *const rules[] = { "127.0.0.1:8001", "127.0.0.1:8002", "127.0.0.1:80",
		NULL };

	const struct rig_options options = { .allowed = rules };

	origin = origin_listen(ORIGIN_PORT);
	other = origin_listen(OTHER_PORT);
	plain = origin_listen(80);
	rig_up(&proxy, &options);
	rig_serve(&proxy, &port);
	return 0;
}

static int
teardown(void **state)
{
	rig_down(&proxy);
	close(origin);
	close(other);
	close(plain);
	return 0;
}

/* Connects to the proxy; if fixed, through a tunnel to port 80. */
static int
client_open(bool fixed)
{
	return fixed ? rig_tunnel(port, "127.0.0.1:80") : rig_client(port);
}

/* ---- one request, one answer ---- */

enum then {
	KEPT,        /* both connections are kept */
	CLIENT_KEPT, /* the client's is kept, the next request opens a new one to the server */
	ENDED,       /* the client's ends cleanly */
	BROKEN,      /* the client's is reset */
};

struct passing {
	const char *label;
	const char *asks, *seen;      /* by the client, by the origin */
	const char *answers, *passed; /* by the origin, to the client */
	enum then then;
	bool closes, resets; /* the origin, after its answer */
	bool fixed;
};

#define GET  "GET http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\n"
#define SEEN "GET / HTTP/1.1\r\nHost: " HOST "\r\n"
#define OK   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

/* clang-format off */
static const struct passing passings[] = {
	{ "the target is written anew",
	    "GET HTTP://127.0.0.1:8001/a?b=c HTTP/1.1\r\nHost: " HOST "\r\nX: y\r\n\r\n",
	    "GET /a?b=c HTTP/1.1\r\nHost: " HOST "\r\nX: y\r\n\r\n", OK, OK, KEPT, .closes = false },
	{ "no path", "GET http://" HOST " HTTP/1.1\r\nHost: " HOST "\r\n\r\n", SEEN "\r\n", OK, OK, KEPT, .closes = false },
	{ "an empty line before", "\r\n" GET "\r\n", SEEN "\r\n", OK, OK, KEPT, .closes = false },
	{ "OPTIONS of the whole server", "OPTIONS http://" HOST " HTTP/1.1\r\nHost: " HOST "\r\n\r\n",
	    "OPTIONS * HTTP/1.1\r\nHost: " HOST "\r\n\r\n", OK, OK, KEPT, .closes = false },
	{ "hop by hop of a request",
	    GET "Connection: keep-alive, X-Private\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n"
	    "Trailer: X\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\nX: y\r\n\r\n",
	    SEEN "X: y\r\n\r\n", OK, OK, KEPT, .closes = false },
	{ "hop by hop of an answer", GET "\r\n", SEEN "\r\n",
	    "HTTP/1.1 200 OK\r\nConnection: X-Private\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\n"
	    "Proxy-Authenticate: Basic\r\nX: y\r\nContent-Length: 2\r\n\r\nhi",
	    "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\nhi", KEPT, .closes = false },
	{ "Host cannot be listed away", GET "Connection: Host, Content-Length\r\n\r\n", SEEN "\r\n", OK, OK, KEPT, .closes = false },
	{ "a body of known length", "POST http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 5\r\n\r\nhello",
	    "POST / HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 5\r\n\r\nhello", OK, OK, KEPT, .closes = false },
	{ "an empty body", "POST http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 0\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 0\r\n\r\n", OK, OK, KEPT, .closes = false },
	{ "a chunked body, its trailers left out",
	    "POST http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "5\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX-Trailer: y\r\n\r\n",
	    "POST / HTTP/1.1\r\nHost: " HOST "\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n", OK, OK, KEPT, .closes = false },
	{ "GET with a body", "GET http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 3\r\n\r\nabc",
	    SEEN "Content-Length: 3\r\n\r\nabc", OK, OK, KEPT, .closes = false },
	{ "a chunked answer", GET "\r\n", SEEN "\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", KEPT, .closes = false },
	{ "an answer until the end", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200 OK\r\n\r\nhello",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", CLIENT_KEPT, .closes = true },
	{ "an answer of HTTP/1.0", GET "\r\n", SEEN "\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", CLIENT_KEPT, .closes = false },
	{ "a server that closes", GET "\r\n", SEEN "\r\n",
	    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", OK, CLIENT_KEPT, .closes = false },
	{ "a client that closes", GET "Connection: close\r\n\r\n", SEEN "Connection: close\r\n\r\n", OK,
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", ENDED, .closes = false },
	{ "a client of HTTP/1.0", "GET http://" HOST "/ HTTP/1.0\r\n\r\n", SEEN "Connection: close\r\n\r\n", OK,
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", ENDED, .closes = false },
	{ "a client of HTTP/1.0 that keeps alive", "GET http://" HOST "/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	    SEEN "\r\n", OK, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi", KEPT, .closes = false },
	{ "chunked for a client of HTTP/1.0", "GET http://" HOST "/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	    SEEN "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi", ENDED, .closes = false },
	{ "until the end for a client of HTTP/1.0", "GET http://" HOST "/ HTTP/1.0\r\n\r\n", SEEN "Connection: close\r\n\r\n",
	    "HTTP/1.0 200 OK\r\n\r\nhello", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", ENDED, .closes = true },
	{ "HEAD", "HEAD http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: " HOST "\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", KEPT, .closes = false },
	{ "HEAD of what would be chunked", "HEAD http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\n\r\n",
	    "HEAD / HTTP/1.1\r\nHost: " HOST "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	    "HTTP/1.1 200 OK\r\n\r\n", KEPT, .closes = false },
	{ "204", GET "\r\n", SEEN "\r\n", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", KEPT, .closes = false },
	{ "304 with the length of what it has not", GET "\r\n", SEEN "\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
	    "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", KEPT, .closes = false },
	{ "no reason", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", KEPT, .closes = false },
	{ "informational first", GET "\r\n", SEEN "\r\n",
	    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" OK,
	    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" OK, KEPT, .closes = false },
	{ "informational, to HTTP/1.0", "GET http://" HOST "/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", SEEN "\r\n",
	    "HTTP/1.1 103 Early Hints\r\n\r\n" OK,
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi", KEPT, .closes = false },
	{ "h2c is no upgrade", GET "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
	    SEEN "\r\n", OK, OK, KEPT, .closes = false },
	{ "h2c is left out of several", GET "Connection: Upgrade\r\nUpgrade: h2c, websocket , TLS/1.0\r\n\r\n",
	    SEEN "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", OK, OK, KEPT, .closes = false },
	{ "an upgrade with a body", "POST http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\nConnection: Upgrade\r\nUpgrade: x\r\n"
	    "Content-Length: 1\r\n\r\na", "POST / HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 1\r\n\r\na", OK, OK, KEPT, .closes = false },
	{ "Upgrade that Connection does not list", GET "Upgrade: websocket\r\n\r\n", SEEN "\r\n", OK, OK, KEPT, .closes = false },
	{ "a second answer that nobody asked for", GET "\r\n", SEEN "\r\n", OK OK, OK, CLIENT_KEPT, .closes = false },

	{ "a length that is not kept", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
	    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", BROKEN, .closes = true },
	{ "a chunk that breaks off", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BROKEN, .closes = true },
	{ "chunks without the last one", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BROKEN, .closes = true },
	{ "chunks without the last one, to HTTP/1.0", "GET http://" HOST "/ HTTP/1.0\r\n\r\n", SEEN "Connection: close\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", BROKEN, .closes = true },
	{ "a chunk size that makes no sense", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BROKEN, .closes = false },
	{ "a reset where the end should be", GET "\r\n", SEEN "\r\n", "HTTP/1.1 200 OK\r\n\r\nhello",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BROKEN, .resets = true },

	{ "in a tunnel", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n\r\n", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n\r\n",
	    OK, OK, KEPT, .fixed = true },
	{ "in a tunnel, the port said", "GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	    OK, OK, KEPT, .fixed = true },
	{ "in a tunnel, absolute", "GET http://127.0.0.1/a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	    OK, OK, KEPT, .fixed = true },
	{ "in a tunnel, HTTP/1.0 without Host", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	    OK, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi", KEPT, .fixed = true },
	{ "in a tunnel, a server that closes", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", ENDED, .fixed = true },
	{ "in a tunnel, until the end", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	    "HTTP/1.0 200 OK\r\n\r\nhello",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n", ENDED,
	    .closes = true, .fixed = true },
};
/* clang-format on */

/* Reads chunks of any size, up to and including the last one, and compares their content. */
static void
sees_chunks(int fd, const char *who, const char *want)
{
	char got[256];
	size_t n = 0;

	for (;;) {
		char size[16];
		size_t i = 0, len;

		while (i < 2 || size[i - 1] != '\n') {
			assert_true(i < sizeof(size) - 1);
			assert_int_equal(hears(fd, size + i++, 1), 1);
		}
		size[i] = '\0';
		len = strtoul(size, NULL, 16);
		assert_in_range(len, 0, sizeof(got) - n - 2);
		assert_int_equal(hears(fd, got + n, len + 2), len + 2);
		assert_memory_equal(got + n + len, "\r\n", 2);
		n += len;
		if (len == 0)
			break;
	}
	got[n] = '\0';
	if (strcmp(got, want) != 0)
		fail_msg("the %s saw '%s' and not '%s'", who, got, want);
}

/* Sends the request in pieces of that size: everything at once, or byte by byte. */
static void
passes_in(const struct passing *p, size_t piece)
{
	cleanup_close int c = client_open(p->fixed);
	cleanup_close int s = -1;
	int listener = p->fixed ? plain : origin;
	const char *again = p->fixed ? "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" : GET;
	const char *seen = p->fixed ? "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" : SEEN;

	for (size_t i = 0, n = strlen(p->asks); i < n; i += piece)
		says_bytes(c, p->asks + i, n - i < piece ? n - i : piece);
	s = origin_accept(listener);
	if (piece > 1)
		sees(s, "origin", p->seen);
	else {
		char head[4096];

		sees_head(s, head, sizeof(head));
		assert_memory_equal(head, p->seen, strlen(head));
		if (strstr(head, "chunked") != NULL)
			sees_chunks(s, "origin", "hello0123456789");
		else
			sees(s, "origin", p->seen + strlen(head));
	}
	says(s, p->answers);
	if (p->resets) {
		struct linger l = { .l_onoff = 1 };

		/* The client gets the whole answer before the reset. */
		sees(c, "client", p->passed);
		assert_int_equal(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	}
	if (p->closes || p->resets)
		close(take_fd(&s));
	if (!p->resets)
		sees(c, "client", p->passed);
	switch (p->then) {
	case KEPT:
		says(c, again);
		says(c, "\r\n");
		sees(s, "origin", seen);
		sees(s, "origin", "\r\n");
		says(s, OK);
		if (memmem(p->asks, strlen(p->asks), "HTTP/1.0", 8) == NULL)
			sees(c, "client", OK);
		break;
	case CLIENT_KEPT:
		/* The proxy closes the connection, whether the server does or not. */
		if (s >= 0)
			sees_end(s, "origin");
		close_at(&s);
		says(c, again);
		says(c, "\r\n");
		s = origin_accept(listener);
		sees(s, "origin", seen);
		sees(s, "origin", "\r\n");
		says(s, OK);
		sees(c, "client", OK);
		break;
	case ENDED:
		sees_end(c, "client");
		break;
	case BROKEN:
		sees_reset(c, "client");
		break;
	}
	nobody_came(listener);
}

static void
passes(void **state)
{
	passes_in(*state, SIZE_MAX / 2);
}

/* ---- refused ---- */

static const struct refused {
	const char *label, *asks;
	int status;
	const char *rule;
	bool kept, fixed;
} refusals[] = {
	/* clang-format off */
	{ "not allowed", "GET http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\n\r\n", 403, "", .kept = true },
	{ "not allowed, with a body", "PUT http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\nContent-Length: 4\r\n\r\nbody", 403, "", .kept = true },
	{ "not allowed, HEAD", "HEAD http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\n\r\n", 403, "", .kept = true },
	{ "not allowed, chunked", "PUT http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 403, "", .kept = false },
	{ "not allowed, a large body", "PUT http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\nContent-Length: 99999999\r\n\r\nbo", 403, "", .kept = false },
	{ "not allowed, to be continued", "PUT http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", 403, "", .kept = false },
	{ "not allowed, closing", "GET http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\nConnection: close\r\n\r\n", 403, "", .kept = false },
	{ "another Host", "GET http://" HOST "/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400, "host", .kept = true },
	{ "another port in Host", "GET http://" HOST "/ HTTP/1.1\r\nHost: 127.0.0.1:8002\r\n\r\n", 400, "host", .kept = true },
	{ "https", "GET https://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\n\r\n", 400, "", .kept = false },
	{ "origin form", "GET / HTTP/1.1\r\nHost: " HOST "\r\n\r\n", 400, "", .kept = true },
	{ "in a tunnel, another Host", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, "host", .kept = true, .fixed = true },
	{ "in a tunnel, another port", "GET / HTTP/1.1\r\nHost: 127.0.0.1:8001\r\n\r\n", 403, "host", .kept = true, .fixed = true },
	{ "in a tunnel, absolute and elsewhere", "GET http://example.com/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 403, "host", .kept = true, .fixed = true },
	{ "in a tunnel, a Host that differs", "GET http://127.0.0.1/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, "host", .kept = true, .fixed = true },
	{ "in a tunnel, another tunnel", "CONNECT 127.0.0.1:8001 HTTP/1.1\r\nHost: 127.0.0.1:8001\r\n\r\n", 400, "", .fixed = true },
	{ "in a tunnel, not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", 400, "", .fixed = true },
	/* clang-format on */
};

/* Reads the head of the answer, and skips its text unless the request was a HEAD. */
static void
sees_refusal(int c, int status, bool to_head, char head[4096])
{
	char text[2048], want[32];
	const char *length;
	size_t n;

	sees_head(c, head, 4096);
	snprintf(want, sizeof(want), "HTTP/1.1 %d ", status);
	if (strncmp(head, want, strlen(want)) != 0)
		fail_msg("not %d but '%s'", status, head);
	assert_non_null(strstr(head, "\r\nKoda-Sandbox: "));
	assert_non_null(length = strstr(head, "\r\nContent-Length: "));
	if (to_head)
		return;
	n = strtoul(length + strlen("\r\nContent-Length: "), NULL, 10);
	assert_in_range(n, 1, sizeof(text));
	assert_int_equal(hears(c, text, n), n);
	assert_int_equal(text[n - 1], '\n');
}

static void
refuses(void **state)
{
	const struct refused *r = *state;
	cleanup_close int c = client_open(r->fixed);
	cleanup_close int s = r->fixed ? origin_accept(plain) : -1;
	const struct rig_connection *report;
	char head[4096], rule[64];

	if (!r->fixed)
		says(c, GET "\r\n");
	rig_sync(&proxy);
	proxy.taken = proxy.n_got;
	/* A request comes first: other code of the proxy refuses a connection's first request. */
	if (!r->fixed) {
		s = origin_accept(origin);
		sees(s, "origin", SEEN "\r\n");
		says(s, OK);
		sees(c, "client", OK);
	}
	says(c, r->asks);
	sees_refusal(c, r->status, strncmp(r->asks, "HEAD", 4) == 0, head);
	snprintf(rule, sizeof(rule), "; rule=%s", r->rule);
	assert_non_null(strstr(head, rule));
	/* The host got the report before the client got the answer. */
	/* Connections of earlier cases may end meanwhile. */
	do {
		report = rig_next_end(&proxy);
	} while (report->outcome == KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED);
	assert_int_equal(report->outcome,
	    r->status == 403 ? KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED
			     : KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID);
	assert_int_equal(report->kind, KODA__EGRESS_KIND__EGRESS_KIND_HTTP);
	if (!r->kept) {
		assert_non_null(strstr(head, "\r\nConnection: close\r\n"));
		sees_end(c, "client");
		close(take_fd(&c));
		if (s >= 0)
			sees_end(s, "origin");
		nobody_came(origin);
		return;
	}
	says(c, r->fixed ? "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" : GET "\r\n");
	/* The connection to the origin was closed because the request was for another target. */
	if (!r->fixed && r->status == 403) {
		sees_end(s, "origin");
		close_at(&s);
		s = origin_accept(origin);
	}
	sees(s, "origin", r->fixed ? "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" : SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
}

/* ---- ambiguous requests ---- */

/* The origin sees only the first request, which is valid, and nothing of what follows. */
static const struct smuggled {
	const char *label, *asks;
} smuggled[] = {
/* clang-format off */
#define POST "POST http://" HOST "/ HTTP/1.1\r\nHost: " HOST "\r\n"
#define EVIL "GET http://" HOST "/evil HTTP/1.1\r\nHost: " HOST "\r\n\r\n"
	{ "length and chunked", POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "chunked and length", POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" EVIL },
	{ "two lengths", POST "Content-Length: 4\r\nContent-Length: 0\r\n\r\n" EVIL },
	{ "two lengths, the same", POST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n" EVIL },
	{ "a list of lengths", POST "Content-Length: 0, 0\r\n\r\n" EVIL },
	{ "a length with a sign", POST "Content-Length: +0\r\n\r\n" EVIL },
	{ "a length below zero", POST "Content-Length: -1\r\n\r\n" EVIL },
	{ "a hexadecimal length", POST "Content-Length: 0x0\r\n\r\n" EVIL },
	{ "a length beyond all", POST "Content-Length: 18446744073709551616\r\n\r\n" EVIL },
	{ "chunked twice", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "chunked, identity", POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" EVIL },
	{ "xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "chunked in quotes", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" EVIL },
	{ "space before the colon", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "a folded line", POST "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "a lone LF", POST "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "a lone CR", POST "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "an underscore's brother", POST "Transfer-Encoding\x0b: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "chunked by HTTP/1.0", "POST http://" HOST "/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" EVIL },
	{ "two Host", GET "Host: evil.example\r\n\r\n" EVIL },
	{ "a word too many", "GET http://" HOST "/ HTTP/1.1 HTTP/1.1\r\nHost: " HOST "\r\n\r\n" EVIL },
	{ "HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" EVIL },
	/* clang-format on */
};

static void
is_not_smuggled(void **state)
{
	const struct smuggled *m = *state;
	cleanup_close int c = client_open(false), s = -1;
	char head[4096];

	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
	says(c, m->asks);
	sees_refusal(c, 400, false, head);
	sees_end(c, "client");
	sees_end(s, "origin");
	nobody_came(origin);
}

/* The framing is wrong inside a body: the origin gets the head, and a body that never ends. */
static const struct smuggled broken_chunks[] = {
	/* clang-format off */
	{ "an extension", "0;x=y\r\n\r\n" EVIL },
	{ "a sign", "+0\r\n\r\n" EVIL },
	{ "0x", "0x0\r\n\r\n" EVIL },
	{ "LF alone", "0\n\n" EVIL },
	{ "a size beyond all", "10000000000000000\r\n" EVIL },
	{ "longer than it says", "1\r\nab\r\n0\r\n\r\n" EVIL },
	{ "a space behind it", "0 \r\n\r\n" EVIL },
	{ "a trailer that is none", "0\r\nGET / HTTP/1.1\r\n\r\n" EVIL },
	/* clang-format on */
};

static void
chunk_is_broken(void **state)
{
	const struct smuggled *m = *state;
	cleanup_close int c = client_open(false), s = -1;
	char head[4096], rest[4096];
	size_t n;

	says(c, POST "Transfer-Encoding: chunked\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "origin",
	    "POST / HTTP/1.1\r\nHost: " HOST "\r\nTransfer-Encoding: chunked\r\n\r\n");
	says(c, m->asks);
	sees_refusal(c, 400, false, head);
	sees_end(c, "client");
	n = hears(s, rest, sizeof(rest));
	assert_null(memmem(rest, n, "evil", 4));
	assert_null(memmem(rest, n, "0\r\n\r\n", 5));
	nobody_came(origin);
}

/* Invalid answers. The client gets a 502, and not a byte of the answer. */
static const struct smuggled bad_answers[] = {
	{ "length and chunked",
	    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
	{ "two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd" },
	{ "no HTTP", "SSH-2.0-OpenSSH_9.2\r\n" },
	{ "a folded line", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n" },
	{ "a switch that nobody asked for",
	    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" },
	{ "HTTP/1.0 with chunks",
	    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
};

static void
answer_is_bad(void **state)
{
	const struct smuggled *m = *state;
	cleanup_close int c = client_open(false), s = -1;
	char head[4096];

	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, m->asks);
	sees_refusal(c, 502, false, head);
	sees_end(s, "origin");
	/* This is not the client's fault: its connection is kept. */
	says(c, GET "\r\n");
	close_at(&s);
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
}

/* ---- several requests ---- */

static void
in_single_bytes(void **state)
{
	for (size_t i = 0; i < N_ELEMENTS(passings); i++) {
		if (passings[i].then == KEPT && strstr(passings[i].asks, "HTTP/1.0") == NULL)
			passes_in(&passings[i], 1);
	}
}

static void
pipelined(void **state)
{
	cleanup_close int c = client_open(false), s = -1, t = -1;
	char head[4096];

	says(c,
	    GET "N: 1\r\n\r\n" POST "N: 2\r\nContent-Length: 3\r\n\r\nabc"
		"GET http://127.0.0.1:8003/ HTTP/1.1\r\nHost: 127.0.0.1:8003\r\nN: 3\r\n\r\n"
		"GET http://127.0.0.1:8002/ HTTP/1.1\r\nHost: 127.0.0.1:8002\r\nN: 4\r\n\r\n" GET
		"N: 5\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "N: 1\r\n\r\n");
	/* One at a time: the second request is not sent before the first is answered. */
	assert_false(comes(s, 50));
	says(s, OK);
	sees(s, "origin",
	    "POST / HTTP/1.1\r\nHost: " HOST "\r\nN: 2\r\nContent-Length: 3\r\n\r\nabc");
	says(s, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
	t = origin_accept(other);
	sees(t, "origin", "GET / HTTP/1.1\r\nHost: 127.0.0.1:8002\r\nN: 4\r\n\r\n");
	says(t, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
	sees_end(s, "origin");
	close_at(&s);
	s = origin_accept(origin);
	sees(s, "origin", SEEN "N: 5\r\n\r\n");
	says(s, OK);
	sees(c, "client", OK "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
	sees_refusal(c, 403, false, head);
	sees(c, "client", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n" OK);
}

static void
continues(void **state)
{
	cleanup_close int c = client_open(false), s = -1;

	says(c, POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "origin",
	    "POST / HTTP/1.1\r\nHost: " HOST
	    "\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	says(s, "HTTP/1.1 100 Continue\r\n\r\n");
	sees(c, "client", "HTTP/1.1 100 Continue\r\n\r\n");
	says(c, "hello");
	sees(s, "origin", "hello");
	says(s, OK);
	sees(c, "client", OK);
	/* The client need not send the body after a 417: if the connections were kept, the next
	 * bytes would be ambiguous. */
	says(c, POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	sees(s, "origin",
	    "POST / HTTP/1.1\r\nHost: " HOST
	    "\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	says(s, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
	sees(c, "client",
	    "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	sees_end(c, "client");
	sees_end(s, "origin");
}

/* The answer starts before the end of the body: both go on, and the answer arrives whole. */
static void
early_answer(void **state)
{
	cleanup_close int c = client_open(false), s = -1;

	says(c, POST "Content-Length: 1000000\r\n\r\nsome");
	s = origin_accept(origin);
	sees(s, "origin",
	    "POST / HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 1000000\r\n\r\nsome");
	says(s, "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nhe");
	sees(c, "client",
	    "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhe");
	says(c, "more");
	sees(s, "origin", "more");
	says(s, "llo");
	sees(c, "client", "llo");
	sees_end(c, "client");
	sees_end(s, "origin");
}

/* The server closes a kept-alive connection just when it gets another request. */
static void
asked_again(void **state)
{
	cleanup_close int c = client_open(false), s = -1;
	char head[4096];

	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
	says(c, GET "N: 2\r\n\r\n");
	sees(s, "origin", SEEN "N: 2\r\n\r\n");
	close_at(&s);
	s = origin_accept(origin);
	sees(s, "origin", SEEN "N: 2\r\n\r\n");
	says(s, OK);
	sees(c, "client", OK);
	/* The request is repeated once, and only on a connection that has served a request
	 * before. */
	says(c, GET "N: 3\r\n\r\n");
	sees(s, "origin", SEEN "N: 3\r\n\r\n");
	close_at(&s);
	s = origin_accept(origin);
	sees(s, "origin", SEEN "N: 3\r\n\r\n");
	close_at(&s);
	sees_refusal(c, 502, false, head);
	nobody_came(origin);
	/* A request that may have had an effect is not repeated. */
	says(c, GET "N: 4\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "N: 4\r\n\r\n");
	says(s, OK);
	sees(c, "client", OK);
	says(c, POST "Content-Length: 0\r\n\r\n");
	sees(s, "origin", "POST / HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 0\r\n\r\n");
	close_at(&s);
	sees_refusal(c, 502, false, head);
	nobody_came(origin);
}

/* A client that goes away in the middle of a body does not leave a complete body behind. */
static void
client_breaks_off(void **state)
{
	static const char *const bodies[] = { "Content-Length: 10\r\n\r\nhello",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" };

	for (size_t i = 0; i < N_ELEMENTS(bodies); i++) {
		int c = client_open(false), s;
		char head[4096], rest[64];
		size_t n;

		says(c, POST);
		says(c, bodies[i]);
		s = origin_accept(origin);
		sees_head(s, head, sizeof(head));
		sees(s, "origin", i == 0 ? "hello" : "5\r\nhello\r\n");
		close(c);
		n = hears(s, rest, sizeof(rest));
		assert_int_equal(n, 0);
		close(s);
	}
}

/* The client has shut down its sending side and waits. */
static void
half_closed_client(void **state)
{
	cleanup_close int c = client_open(false), s = -1;

	says(c, GET "\r\n");
	assert_int_equal(shutdown(c, SHUT_WR), 0);
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
	sees_end(c, "client");
	sees_end(s, "origin");
}

/* ---- upgrade ---- */

static void
echoes(int c, int s)
{
	static char bytes[300000], got[sizeof(bytes)];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + (i >> 8));
	says_bytes(c, bytes, 1000);
	assert_int_equal(hears(s, got, 1000), 1000);
	assert_memory_equal(got, bytes, 1000);
	says_bytes(s, bytes, sizeof(bytes));
	assert_int_equal(hears(c, got, sizeof(got)), sizeof(got));
	assert_memory_equal(got, bytes, sizeof(got));
	assert_int_equal(shutdown(c, SHUT_WR), 0);
	sees_end(s, "origin");
	says(s, "last words");
	sees(c, "client", "last words");
	close(s);
	sees_end(c, "client");
}

static void
websocket_in(bool fixed)
{
	cleanup_close int c = client_open(fixed);
	int s;

	says(c,
	    fixed ? "GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive, Upgrade\r\n"
		    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\nEARLY"
		  : "GET http://" HOST "/chat HTTP/1.1\r\nHost: " HOST
		    "\r\nConnection: keep-alive, Upgrade\r\n"
		    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\nEARLY");
	s = origin_accept(fixed ? plain : origin);
	sees(s, "origin",
	    fixed ? "GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		  : "GET /chat HTTP/1.1\r\nHost: " HOST "\r\n");
	sees(s, "origin",
	    "Sec-WebSocket-Version: 13\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	/* Until the protocol has changed, the bytes after the head are held back. */
	assert_false(comes(s, 50));
	says(s,
	    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n"
	    "Sec-WebSocket-Accept: x\r\n\r\nfirst");
	sees(c, "client",
	    "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\n"
	    "Upgrade: WebSocket\r\n\r\nfirst");
	sees(s, "origin", "EARLY");
	echoes(c, s);
}

static void
websocket(void **state)
{
	websocket_in(false);
}

static void
websocket_in_a_tunnel(void **state)
{
	websocket_in(true);
}

/* ---- large and slow ---- */

#define LARGE (64u << 20)

/* Writes on one side and reads on the other, each when it is ready. */
static void
moves(int from, int to, size_t n, uint64_t *most)
{
	static char out[65536], in[65536];
	size_t sent = 0, got = 0;

	memset(out, 'x', sizeof(out));
	while (got < n) {
		struct pollfd p[2] = { { .fd = sent < n ? from : -1, .events = POLLOUT },
			{ .fd = to, .events = POLLIN } };
		ssize_t r;

		assert_true(poll(p, 2, PATIENCE_MS) > 0);
		if ((p[0].revents & POLLOUT) != 0) {
			r = send(from, out, n - sent < sizeof(out) ? n - sent : sizeof(out),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
			sent += r > 0 ? (size_t)r : 0;
		}
		if (p[1].revents != 0) {
			r = recv(to, in, n - got < sizeof(in) ? n - got : sizeof(in), 0);
			if (r <= 0)
				fail_msg("it ends after %zu", got);
			got += (size_t)r;
		}
		if ((got >> 20) % 16 == 0 && resident(&proxy) > *most)
			*most = resident(&proxy);
	}
}

static void
large_bodies(void **state)
{
	uint64_t before = resident(&proxy), most = 0;
	cleanup_close int c = client_open(false), s = -1;

	says(c, POST "Content-Length: 67108864\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "origin", "POST / HTTP/1.1\r\nHost: " HOST "\r\nContent-Length: 67108864\r\n\r\n");
	moves(c, s, LARGE, &most);
	says(s, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
	sees(c, "client", "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
	moves(s, c, LARGE, &most);
	assert_true(most < before + (4u << 20));
	says(c, GET "\r\n");
	sees(s, "origin", SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
}

/* A client that does not read slows the server down; the proxy does not buffer the rest. */
static void
slow_client(void **state)
{
	uint64_t before = resident(&proxy), sent = 0;
	cleanup_close int c = client_open(false), s = -1;
	static char block[65536];
	struct pollfd p;

	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4000000\r\n");
	p = (struct pollfd){ .fd = s, .events = POLLOUT };
	/* Write until there has been no room for a while: the buffers of both sockets are full. */
	while (sent < LARGE && poll(&p, 1, 300) == 1) {
		ssize_t r = send(s, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);

		sent += r > 0 ? (uint64_t)r : 0;
	}
	assert_true(sent < LARGE);
	assert_true(resident(&proxy) < before + (1u << 20));
}

static void
slow_origin(void **state)
{
	static const char answer[] =
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
	cleanup_close int c = client_open(false), s = -1;

	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	for (size_t i = 0; i < sizeof(answer) - 1; i++)
		says_bytes(s, answer + i, 1);
	sees(c, "client", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	sees_chunks(c, "client", "abc");
}

/* ---- reports ---- */

static void
is_reported(void **state)
{
	const struct rig_connection *r;
	cleanup_close int c = client_open(false), s = -1;

	rig_sync(&proxy);
	proxy.taken = proxy.n_got;
	says(c, GET "\r\n" GET "\r\n");
	s = origin_accept(origin);
	for (int i = 0; i < 2; i++) {
		sees(s, "origin", SEEN "\r\n");
		says(s, OK);
		sees(c, "client", OK);
	}
	close(take_fd(&c));
	sees_end(s, "origin");
	do {
		r = rig_next(&proxy);
	} while (!r->open);
	assert_string_equal(r->host, "127.0.0.1");
	assert_int_equal(r->port, ORIGIN_PORT);
	assert_int_equal(r->kind, KODA__EGRESS_KIND__EGRESS_KIND_HTTP);
	/* Connections of earlier cases may end meanwhile. */
	r = rig_end_of(&proxy, r->id);
	assert_int_equal(r->outcome, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED);
	assert_int_equal(r->up, 2 * strlen(SEEN "\r\n"));
	assert_int_equal(r->down, 2 * strlen(OK));
}

/* The slot ends in the middle of requests of its clients; clients of other slots go on. */
static void
dropped(void **state)
{
	cleanup_close int mine = client_open(false);
	unsigned kept = port;
	uint64_t slot = rig_serve(&proxy, &port);
	int idle = client_open(false), up = client_open(false), down = client_open(false);
	int s[3];
	char byte;

	says(idle, GET "X");
	says(up, POST "Content-Length: 100\r\n\r\nsome");
	s[0] = origin_accept(origin);
	says(down, GET "\r\n");
	s[1] = origin_accept(origin);
	sees(s[1], "origin", SEEN "\r\n");
	says(s[1], "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
	sees(down, "client", "HTTP/1.1 200 OK\r\n");
	says(mine, GET "\r\n");
	s[2] = origin_accept(origin);
	sees(s[2], "origin", SEEN "\r\n");
	rig_drop(&proxy, slot);
	while (recv(idle, &byte, 1, 0) > 0)
		;
	while (recv(up, &byte, 1, 0) > 0)
		;
	while (recv(down, &byte, 1, 0) > 0)
		;
	says(s[2], OK);
	sees(mine, "client", OK);
	port = kept;
	close(idle);
	close(up);
	close(down);
	for (size_t i = 0; i < N_ELEMENTS(s); i++)
		close(s[i]);
}

/* The timeout for the second head is the same as for the first. */
static void
slow_head(void **state)
{
	static const char *const rules[] = { "127.0.0.1:8001", NULL };
	const struct rig_options options = { .allowed = rules,
		.program = KODA_TEST_VARIANT_DIR "/koda-egress-proxy-hasty" };
	struct rig hasty;
	unsigned p;
	char head[4096];
	int c, s;

	rig_up(&hasty, &options);
	rig_serve(&hasty, &p);
	c = rig_client(p);
	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says(s, OK);
	sees(c, "client", OK);
	says(c, GET);
	sees_refusal(c, 408, false, head);
	sees_end(c, "client");
	close(c);
	close(s);
	rig_down(&hasty);
}

/* Through the user's proxy: absolute form, and the user's credentials in place of the client's. */
static void
users_proxy(void **state)
{
	static const char *const rules[] = { "far.test:80", "far.test:81", NULL };
	const struct rig_options options = { .allowed = rules,
		.http_proxy = "http://user:secret@127.0.0.1:8001" };
	struct rig chained;
	char head[4096];
	unsigned p;
	int c, s;

	rig_up(&chained, &options);
	rig_serve(&chained, &p);
	c = rig_client(p);
	says(c,
	    "GET http://far.test/a?b HTTP/1.1\r\nHost: far.test\r\nProxy-Authorization: Basic bWluZQ==\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "user's proxy",
	    "GET http://far.test/a?b HTTP/1.1\r\nHost: far.test\r\n"
	    "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n");
	says(s, OK);
	sees(c, "client", OK);
	/* The same target reuses the connection; another target gets a new one. */
	says(c,
	    "OPTIONS http://far.test HTTP/1.1\r\nHost: far.test\r\n\r\n"
	    "GET http://far.test:81/ HTTP/1.1\r\nHost: far.test:81\r\n\r\n");
	sees(s, "user's proxy",
	    "OPTIONS http://far.test HTTP/1.1\r\nHost: far.test\r\n"
	    "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n");
	says(s, OK);
	sees(c, "client", OK);
	sees_end(s, "user's proxy");
	close(s);
	s = origin_accept(origin);
	sees(s, "user's proxy",
	    "GET http://far.test:81/ HTTP/1.1\r\nHost: far.test:81\r\n"
	    "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n");
	/* The client cannot answer the user's proxy if it wants other credentials. */
	says(s,
	    "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n");
	sees_refusal(c, 502, false, head);
	close(c);
	close(s);
	rig_down(&chained);
}

/*
 * The client does not see what the proxy sends to the user's proxy besides the request, and the
 * proxy uses the credentials only for the target.
 */
static void
users_proxy_is_not_the_clients(void **state)
{
	static const char *const rules[] = { "far.test:80", NULL };
	const struct rig_options options = { .allowed = rules,
		.http_proxy = "http://user:secret@127.0.0.1:8001" };
	struct rig chained;
	char head[4096];
	unsigned p;
	int c, s;

	rig_up(&chained, &options);
	rig_serve(&chained, &p);
	c = rig_client(p);
	/* The answer to a TRACE shows the request as received: with the credentials. */
	says(c, "TRACE http://far.test/ HTTP/1.1\r\nHost: far.test\r\nMax-Forwards: 0\r\n\r\n");
	sees_refusal(c, 403, false, head);
	assert_non_null(strstr(head, "; rule=method;"));
	nobody_came(origin);
	/* A user's proxy that does not know 101 passes it on from the target and goes on to read
	 * requests. The client's bytes would then be its own requests, to any target. So the
	 * proxy neither asks for an upgrade nor accepts one. */
	says(c,
	    "GET http://far.test/ HTTP/1.1\r\nHost: far.test\r\nConnection: Upgrade\r\n"
	    "Upgrade: websocket\r\n\r\n");
	s = origin_accept(origin);
	sees(s, "user's proxy",
	    "GET http://far.test/ HTTP/1.1\r\nHost: far.test\r\n"
	    "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n");
	says(s,
	    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	sees_refusal(c, 502, false, head);
	sees_end(s, "user's proxy");
	close(c);
	close(s);
	rig_down(&chained);
}

static void
head_too_large(void **state)
{
	cleanup_close int c = client_open(false);
	char *head = malloc(20000), answer[4096];

	assert_non_null(head);
	memset(head, 'a', 20000);
	memcpy(head, GET "X: ", strlen(GET "X: "));
	says_bytes(c, head, 20000);
	sees_refusal(c, 431, false, answer);
	sees_end(c, "client");
	nobody_came(origin);
	free(head);
}

static void
answer_too_large(void **state)
{
	cleanup_close int c = client_open(false), s = -1;
	char *head = malloc(40000), answer[4096];

	assert_non_null(head);
	memset(head, 'a', 40000);
	memcpy(head, "HTTP/1.1 200 OK\r\nX: ", strlen("HTTP/1.1 200 OK\r\nX: "));
	says(c, GET "\r\n");
	s = origin_accept(origin);
	sees(s, "origin", SEEN "\r\n");
	says_bytes(s, head, 40000);
	sees_refusal(c, 502, false, answer);
	free(head);
}

int
main(void)
{
	static struct CMUnitTest tests[N_ELEMENTS(passings) + N_ELEMENTS(refusals) +
	    N_ELEMENTS(smuggled) + N_ELEMENTS(broken_chunks) + N_ELEMENTS(bad_answers) + 32];
	const struct CMUnitTest singles[] = {
		cmocka_unit_test(in_single_bytes),
		cmocka_unit_test(pipelined),
		cmocka_unit_test(continues),
		cmocka_unit_test(early_answer),
		cmocka_unit_test(asked_again),
		cmocka_unit_test(client_breaks_off),
		cmocka_unit_test(half_closed_client),
		cmocka_unit_test(websocket),
		cmocka_unit_test(websocket_in_a_tunnel),
		cmocka_unit_test(large_bodies),
		cmocka_unit_test(slow_client),
		cmocka_unit_test(slow_origin),
		cmocka_unit_test(is_reported),
		cmocka_unit_test(dropped),
		cmocka_unit_test(slow_head),
		cmocka_unit_test(users_proxy),
		cmocka_unit_test(users_proxy_is_not_the_clients),
		cmocka_unit_test(head_too_large),
		cmocka_unit_test(answer_too_large),
	};
	size_t n = 0;

#define TABLE(table, function, prefix)                                                             \
	for (size_t i = 0; i < N_ELEMENTS(table); i++)                                             \
	tests[n++] = (struct CMUnitTest){ strdup(proof_path("%s: %s", prefix, (table)[i].label)),  \
		function, NULL, NULL, (void *)&(table)[i] }
	TABLE(passings, passes, "passes");
	TABLE(refusals, refuses, "refused");
	TABLE(smuggled, is_not_smuggled, "smuggled");
	TABLE(broken_chunks, chunk_is_broken, "chunk");
	TABLE(bad_answers, answer_is_bad, "answer");
	OTHERS(singles);
	rig_enter("127.0.0.1 localhost\n");
	/* The tables end with an empty row. */
	return _cmocka_run_group_tests("forward", tests, n, setup, teardown);
}
