/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where a message's body ends. Pure: the caller feeds what arrives, and body_take() says how
 * much of it belongs to the body. Chunked framing is strict: sizes of at most 16 hex digits, CRLF
 * everywhere; extensions are refused, trailers are skipped and not passed on.
 */
#ifndef KODA_PROXY_SERVE_BODY_H
#define KODA_PROXY_SERVE_BODY_H

#include "proxy/accept/http.h"

#define BODY_TRAILER_MAX 8192

struct body {
	enum http_body kind;
	uint64_t left; /* bytes left, of the length or of this chunk */
	unsigned state;
	unsigned digits;
	size_t trailer;
};

void body_init(struct body *b, const struct http_head *head);
bool body_over(const struct body *b);

/* Take the next piece: content (a run of the body's bytes at *ret_content, inside bytes) of
 * *ret_len bytes, possibly 0; *ret_taken bytes were consumed in all. HTTP_OK: call again with
 * the rest while there is any. HTTP_INCOMPLETE: everything was consumed, more is needed.
 * HTTP_BAD: invalid. At its end body_over() is true, and bytes that are not consumed belong to
 * the next message. */
enum http_result body_take(struct body *b, const void *bytes, size_t n, size_t *ret_taken,
    const char **ret_content, size_t *ret_len, const char **why);
/* The connection has ended: is the body complete? */
bool body_end(struct body *b);

#endif
