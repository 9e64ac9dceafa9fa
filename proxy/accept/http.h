/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an HTTP/1 request or response. Pure, strict (RFC 9112): refuses what two parsers
 * could read in two ways. Does not copy: fields point into the bytes.
 *
 * Refused: a bare CR or LF, NUL and other controls, obs-fold, space before ':', an empty or
 * non-token name, a request line that is not exactly "METHOD SP TARGET SP HTTP/1.0" or 1.1, a
 * method with lower-case letters, a target with a fragment or with bytes that are not visible
 * ASCII, or (absolute) with a query and no path, more than HTTP_FIELDS_MAX fields, two Host fields
 * or one that is not a host, an origin form of HTTP/1.1 without Host, Content-Length that is not
 * one plain number (a list of equal ones too), Content-Length with Transfer-Encoding,
 * Transfer-Encoding that is not exactly "chunked", or in HTTP/1.0; a body of CONNECT.
 *
 * Parsing starts again with each piece that arrives: for a head that comes byte by byte that is
 * quadratic, but PROXY_HEAD_MAX keeps it cheaper than the reads it takes.
 */
#ifndef KODA_PROXY_ACCEPT_HTTP_H
#define KODA_PROXY_ACCEPT_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/rules/domain.h"

#define HTTP_FIELDS_MAX  128
#define HTTP_OPTIONS_MAX 16 /* in all Connection fields together; browsers send two */

struct http_text {
	const char *p;
	size_t n;
};

struct http_field {
	struct http_text name, value; /* value: without surrounding white space */
};

enum http_body {
	HTTP_BODY_NONE,
	HTTP_BODY_LENGTH,
	HTTP_BODY_CHUNKED,
	HTTP_BODY_CLOSE, /* responses: until the connection ends */
};

enum http_form {
	HTTP_FORM_AUTHORITY, /* CONNECT host:port */
	HTTP_FORM_ABSOLUTE,  /* http://host[:port]/path */
	HTTP_FORM_ORIGIN,    /* /path */
	HTTP_FORM_ASTERISK,
};

struct http_head {
	size_t len;     /* of the whole head, including the empty line */
	unsigned minor; /* HTTP/1.minor */
	struct http_field field[HTTP_FIELDS_MAX];
	size_t n_fields;
	enum http_body body;
	uint64_t length; /* of HTTP_BODY_LENGTH */
	bool keep_alive; /* by version and Connection */
	bool upgrade;    /* Connection: upgrade, and an Upgrade field */
	bool expect_continue;

	/* requests */
	struct http_text method, target;
	enum http_form form;
	/* canonical; from the target, or for an origin form from the Host field */
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind host_kind;
	unsigned port; /* 0: origin form whose Host has no port */
	/* What an origin form would have as its target ("/" when empty, or OPTIONS' "*"; with
	 * the query). For absolute forms. */
	struct http_text path;
	bool has_host_field;
	bool host_differs; /* absolute form: the Host field names another host */

	/* responses */
	unsigned status;
};

enum http_result {
	HTTP_INCOMPLETE,
	HTTP_OK,
	/* *why: one phrase, static. *ret is meaningful only after HTTP_OK. */
	HTTP_BAD,
};

/* Parse n bytes that begin with a head. A request may be preceded by one empty line, which
 * counts in len. */
enum http_result http_request_parse(const void *bytes, size_t n, struct http_head *ret,
    const char **why);
/* to_head: it answers a HEAD request; to_connect: a CONNECT. Both affect its body. */
enum http_result http_response_parse(const void *bytes, size_t n, bool to_head, bool to_connect,
    struct http_head *ret, const char **why);

/* Compare, ignoring case. */
bool http_text_is(struct http_text t, const char *lower);
/* Return the i-th field of that name (lower case), or NULL. */
const struct http_field *http_field(const struct http_head *h, const char *lower, size_t i);
/* Does the field end at the next hop: Connection and what it lists, Keep-Alive, Proxy-*, TE,
 * Trailer, Transfer-Encoding, Upgrade? The code that sends the head on writes framing and
 * upgrade itself. */
bool http_is_hop(const struct http_head *h, const struct http_field *f);

#endif
