/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites heads: turns a parsed head (http.h) into the bytes that are sent on. Pure.
 *
 * Always written by us:
 *	the request line     method and path as they came, HTTP/1.1. To the user's proxy the
 *	                     absolute form (for "*": the one without a path), else the origin form
 *	the status line      HTTP/1.1, status and reason as they came
 *	Host                 the target that was judged, with its port unless it is the scheme's
 *	framing              Content-Length or Transfer-Encoding: chunked, never both, as parsed
 *	Upgrade              with its Connection: the permitted protocols (rewrite_upgrades), or
 *	                     neither
 *	Connection           close; keep-alive to a client of HTTP/1.0
 *	Proxy-Authorization  only to the user's proxy, with the user's credentials
 * Passed on: all other fields, in their order, unchanged except for white space around a value.
 * Never passed on: Connection and each field that it lists, Keep-Alive, Proxy-*, TE, Trailer (nor
 * are trailers), HTTP2-Settings. What a client tells its proxy ends here, and so does what a server
 * asks of a proxy.
 *
 * Functions with a buffer return the length of what they wrote, or 0: it does not fit, and the
 * buffer's content is useless.
 */
#ifndef KODA_PROXY_SERVE_REWRITE_H
#define KODA_PROXY_SERVE_REWRITE_H

#include "proxy/accept/http.h"
#include "shared/rules/upstream.h"

/* The most that is written around a piece of a body: its size, two line ends, the last chunk. */
#define REWRITE_CHUNK_MAX 40

struct rewrite_request {
	const struct http_head *head;
	const char *host; /* canonical */
	unsigned port;
	bool tls;                         /* the scheme is https, with another default port */
	bool close;                       /* the client sends no further request */
	const struct upstream_proxy *via; /* this HTTP proxy; NULL: the target itself */
};

size_t rewrite_request(const struct rewrite_request *r, char *buf, size_t size);
/* Does the rewritten request ask for an upgrade? Not from HTTP/1.0, with a body, to a proxy, or
 * for h2c or TLS. If it does, `close` is ignored: there is only one Connection field. */
bool rewrite_upgrades(const struct rewrite_request *r);

struct rewrite_answer {
	const struct http_head *head;
	const char *bytes; /* what head was parsed from */
	/* It answers HEAD: the length is only announced, as in a 304. */
	bool to_head;
	unsigned client_minor; /* HTTP/1.minor */
	bool close;
};

size_t rewrite_answer(const struct rewrite_answer *a, char *buf, size_t size);
/* Return how the answer's body is framed for the client. A body that ends with the server's
 * connection becomes chunked, so that the client can tell a complete body from one that broke
 * off. HTTP/1.0 has no chunks: HTTP_BODY_CLOSE, and the client's connection is closed. */
enum http_body rewrite_framing(const struct http_head *answer, unsigned client_minor);

/* For 1xx except 101. */
size_t rewrite_informational(const struct http_head *h, const char *bytes, char *buf, size_t size);
/* For 101. */
size_t rewrite_switch(const struct http_head *h, const char *bytes, char *buf, size_t size);
/* Does that 101 name a protocol that may pass? */
bool rewrite_may_switch(const struct http_head *h);

/* Write n bytes of content as one chunk; n 0: the last chunk. */
size_t rewrite_chunk(const char *content, size_t n, char *buf, size_t size);

#endif
