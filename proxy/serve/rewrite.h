/*
 * Heads written anew: what was understood (http.h) becomes the bytes that go on. Pure.
 *
 * Written by us, whatever came:
 *	the request line     method and path as they came, HTTP/1.1. To the user's proxy the absolute form (of "*": the one
 *	                     without a path), else the origin form
 *	the status line      HTTP/1.1, status and reason as they came
 *	Host                 the target that was judged, with its port unless it is the scheme's
 *	framing              Content-Length or Transfer-Encoding: chunked, never both, as the body was understood
 *	Upgrade              with its Connection: the protocols that may be asked for (rewrite_upgrades), or neither
 *	Connection           close; keep-alive to a client of HTTP/1.0
 *	Proxy-Authorization  to the user's proxy alone, with the user's credentials
 * Passed on: all other fields, in their order, as they came but for the white space around a value.
 * Never passed on: Connection and each field that it lists, Keep-Alive, Proxy-*, TE, Trailer (nor are trailers),
 * HTTP2-Settings. What a client tells its proxy ends here, and so does what a server asks a proxy for.
 *
 * Functions with a buffer return the length of what was written, or 0: it does not fit, and what is there is of no use.
 */
#ifndef KODA_PROXY_SERVE_REWRITE_H
#define KODA_PROXY_SERVE_REWRITE_H

#include "proxy/accept/http.h"
#include "shared/rules/upstream.h"

/* What is written around a piece of a body, at most: its size, two line ends, the last chunk. */
#define REWRITE_CHUNK_MAX 40

struct rewrite_request {
	const struct http_head *head;
	const char *host; /* canonical */
	unsigned port;
	bool tls;                         /* the scheme is https: its port is another */
	bool close;                       /* the client asks nothing more after it */
	const struct upstream_proxy *via; /* that HTTP proxy; NULL: the target itself */
};

size_t rewrite_request(const struct rewrite_request *r, char *buf, size_t size);
/* Does it ask for an upgrade, as it is written? Not from HTTP/1.0, with a body, to a proxy, nor for h2c or TLS. Where
 * it does, `close` is not said: there is one Connection field. */
bool rewrite_upgrades(const struct rewrite_request *r);

struct rewrite_answer {
	const struct http_head *head;
	const char *bytes;     /* what head was parsed from */
	bool to_head;          /* it answers HEAD: a length is only told of, as in a 304 */
	unsigned client_minor; /* HTTP/1.minor */
	bool close;
};

size_t rewrite_answer(const struct rewrite_answer *a, char *buf, size_t size);
/* How its body is framed for the client. What ends with the server's connection becomes chunked, so that a whole one
 * can be told from one that broke off; HTTP/1.0 knows no chunks: HTTP_BODY_CLOSE, and the client's is closed. */
enum http_body rewrite_framing(const struct http_head *answer, unsigned client_minor);

/* 1xx but 101. */
size_t rewrite_informational(const struct http_head *h, const char *bytes, char *buf, size_t size);
/* 101. */
size_t rewrite_switch(const struct http_head *h, const char *bytes, char *buf, size_t size);
/* Does that 101 name a protocol that may pass? */
bool rewrite_may_switch(const struct http_head *h);

/* n bytes of content as one chunk; none: the last chunk. */
size_t rewrite_chunk(const char *content, size_t n, char *buf, size_t size);

#endif
