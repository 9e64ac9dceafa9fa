/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/accept/http.h"

#include <string.h>

/* Where a byte may occur. */
enum {
	TEXT = 1,  /* in a field's value: HTAB, SP, visible ASCII, and every non-ASCII byte */
	TOKEN = 2, /* RFC 9110, 5.6.2 */
	/* A token without lower-case letters: some servers take "connect" for CONNECT, others do
	 * not. */
	METHOD = 4,
	TARGET = 8, /* visible ASCII without '#', which begins a fragment: clients never send one */
};

/* clang-format off */
static const unsigned char class[256] = {
	['\t'] = TEXT, [' '] = TEXT, [0x80 ... 0xff] = TEXT,
	['!'] = TEXT | TOKEN | METHOD | TARGET, ['"'] = TEXT | TARGET, ['#'] = TEXT | TOKEN | METHOD,
	['$' ... '\''] = TEXT | TOKEN | METHOD | TARGET, ['(' ... ')'] = TEXT | TARGET,
	['*' ... '+'] = TEXT | TOKEN | METHOD | TARGET, [','] = TEXT | TARGET,
	['-' ... '.'] = TEXT | TOKEN | METHOD | TARGET, ['/'] = TEXT | TARGET,
	['0' ... '9'] = TEXT | TOKEN | METHOD | TARGET, [':' ... '@'] = TEXT | TARGET,
	['A' ... 'Z'] = TEXT | TOKEN | METHOD | TARGET, ['[' ... ']'] = TEXT | TARGET,
	['^' ... '`'] = TEXT | TOKEN | METHOD | TARGET, ['a' ... 'z'] = TEXT | TOKEN | TARGET,
	['{'] = TEXT | TARGET, ['|'] = TEXT | TOKEN | METHOD | TARGET, ['}'] = TEXT | TARGET,
	['~'] = TEXT | TOKEN | METHOD | TARGET,
};
/* clang-format on */

static bool
all(struct http_text t, unsigned char what)
{
	for (size_t i = 0; i < t.n; i++) {
		if ((class[(unsigned char)t.p[i]] & what) == 0)
			return false;
	}
	return t.n > 0;
}

static char
lower_of(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool
http_text_is(struct http_text t, const char *lower)
{
	for (size_t i = 0; i < t.n; i++) {
		if (lower[i] == '\0' || lower_of(t.p[i]) != lower[i])
			return false;
	}
	return lower[t.n] == '\0';
}

static bool
same_text(struct http_text a, struct http_text b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++) {
		if (lower_of(a.p[i]) != lower_of(b.p[i]))
			return false;
	}
	return true;
}

static struct http_text
trimmed(struct http_text t)
{
	while (t.n > 0 && (t.p[0] == ' ' || t.p[0] == '\t')) {
		t.p++;
		t.n--;
	}
	while (t.n > 0 && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	return t;
}

/* Take the next item of a comma-separated list; rest becomes what is left. */
static bool
next_listed(struct http_text *rest, struct http_text *ret)
{
	const char *comma;

	if (rest->n == 0)
		return false;
	comma = memchr(rest->p, ',', rest->n);
	*ret = (struct http_text){ rest->p, comma == NULL ? rest->n : (size_t)(comma - rest->p) };
	rest->p += ret->n + (comma != NULL);
	rest->n -= ret->n + (comma != NULL);
	*ret = trimmed(*ret);
	return true;
}

static enum http_result
bad(const char **why, const char *phrase)
{
	*why = phrase;
	return HTTP_BAD;
}

/* Take the line at *at, which has to end with CRLF. */
static enum http_result
next_line(struct http_text all_bytes, size_t *at, struct http_text *ret, const char **why)
{
	const char *p = all_bytes.p;
	size_t i = *at, n = all_bytes.n;

	while (i < n && (class[(unsigned char)p[i]] & TEXT) != 0)
		i++;
	if (i == n)
		return HTTP_INCOMPLETE;
	if (p[i] == '\n')
		return bad(why, "a line that ends with LF alone");
	if (p[i] != '\r')
		return bad(why, "a control character in the head");
	if (i + 1 == n)
		return HTTP_INCOMPLETE;
	if (p[i + 1] != '\n')
		return bad(why, "a CR without LF");
	*ret = (struct http_text){ p + *at, i - *at };
	*at = i + 2;
	return HTTP_OK;
}

/* The fields that decide about framing; gathered in one pass over all fields. */
struct framing_fields {
	const struct http_field *host, *length, *encoding;
	bool upgrade_field, upgrade_option, close, keep_alive, expect_continue;
	unsigned options;
};

/* Returns NULL, or what is wrong. */
static const char *
see_connection(struct framing_fields *s, struct http_text value)
{
	struct http_text option;

	while (next_listed(&value, &option)) {
		/* Each option costs a comparison with each field (http_is_hop). */
		if (++s->options > HTTP_OPTIONS_MAX)
			return "a Connection field that lists too many options";
		if (http_text_is(option, "close"))
			s->close = true;
		else if (http_text_is(option, "keep-alive"))
			s->keep_alive = true;
		else if (http_text_is(option, "upgrade"))
			s->upgrade_option = true;
	}
	return NULL;
}

static const char *
see_field(struct framing_fields *s, const struct http_field *f)
{
	switch (f->name.n) {
	case 4:
		if (!http_text_is(f->name, "host"))
			break;
		if (s->host != NULL)
			return "two Host fields";
		s->host = f;
		break;
	case 6:
		if (http_text_is(f->name, "expect") && http_text_is(f->value, "100-continue"))
			s->expect_continue = true;
		break;
	case 7:
		if (http_text_is(f->name, "upgrade") && f->value.n > 0)
			s->upgrade_field = true;
		break;
	case 10:
		if (http_text_is(f->name, "connection"))
			return see_connection(s, f->value);
		break;
	case 14:
		if (!http_text_is(f->name, "content-length"))
			break;
		if (s->length != NULL)
			return "two Content-Length fields";
		s->length = f;
		break;
	case 17:
		if (!http_text_is(f->name, "transfer-encoding"))
			break;
		if (s->encoding != NULL)
			return "two Transfer-Encoding fields";
		s->encoding = f;
		break;
	default:
		break;
	}
	return NULL;
}

static enum http_result
parse_fields(struct http_text bytes, size_t *at, struct http_head *h, struct framing_fields *s,
    const char **why)
{
	struct http_text line;
	enum http_result r;

	h->n_fields = 0;
	while ((r = next_line(bytes, at, &line, why)) == HTTP_OK && line.n > 0) {
		struct http_field *f;
		size_t name = 0;

		if (line.p[0] == ' ' || line.p[0] == '\t')
			return bad(why, "a folded line");
		while (name < line.n && (class[(unsigned char)line.p[name]] & TOKEN) != 0)
			name++;
		if (name == line.n)
			return bad(why, "a field without ':'");
		if (line.p[name] == ' ' || line.p[name] == '\t')
			return bad(why, "white space before ':'");
		if (line.p[name] != ':' || name == 0)
			return bad(why, "a field name with an invalid byte");
		if (h->n_fields == HTTP_FIELDS_MAX)
			return bad(why, "too many fields");
		f = &h->field[h->n_fields++];
		f->name = (struct http_text){ line.p, name };
		f->value = trimmed((struct http_text){ line.p + name + 1, line.n - name - 1 });
		*why = see_field(s, f);
		if (*why != NULL)
			return HTTP_BAD;
	}
	return r;
}

/* One plain number: no sign, no list, no leading zero (some parsers read octal), and less than
 * 2^63, which fits every parser. */
static const char *
parse_length(struct http_text t, uint64_t *ret)
{
	uint64_t v = 0;

	if (t.n == 0 || t.n > 19 || (t.n > 1 && t.p[0] == '0'))
		return "a Content-Length that is not a plain number";
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return "a Content-Length that is not a plain number";
		v = v * 10 + (uint64_t)(t.p[i] - '0'); /* 19 digits: less than 2^64 */
	}
	if (v > INT64_MAX)
		return "a Content-Length that is too large";
	*ret = v;
	return NULL;
}

/* Set body and length, for any kind of message. Returns NULL, or what is wrong. */
static const char *
parse_framing(struct http_head *h, const struct framing_fields *s)
{
	const char *why;

	h->body = HTTP_BODY_NONE;
	h->length = 0;
	h->keep_alive = !s->close && (h->minor >= 1 || s->keep_alive);
	h->upgrade = h->minor >= 1 && s->upgrade_option && s->upgrade_field;
	if (s->length != NULL && s->encoding != NULL)
		return "Content-Length and Transfer-Encoding";
	if (s->encoding != NULL) {
		if (h->minor == 0)
			return "Transfer-Encoding in HTTP/1.0";
		if (!http_text_is(s->encoding->value, "chunked"))
			return "a Transfer-Encoding that is not \"chunked\"";
		h->body = HTTP_BODY_CHUNKED;
	} else if (s->length != NULL) {
		why = parse_length(s->length->value, &h->length);
		if (why != NULL)
			return why;
		h->body = HTTP_BODY_LENGTH;
	}
	return NULL;
}

static bool
parse_version(struct http_text t, unsigned *ret_minor)
{
	/* HTTP is in capitals. There is no HTTP/1.2. */
	if (t.n != 8 || memcmp(t.p, "HTTP/1.", 7) != 0 || (t.p[7] != '0' && t.p[7] != '1'))
		return false;
	*ret_minor = (unsigned)(t.p[7] - '0');
	return true;
}

static bool
is_method(const struct http_head *h, const char *name)
{
	return h->method.n == strlen(name) && memcmp(h->method.p, name, h->method.n) == 0;
}

static size_t
scheme_len(struct http_text t, const char *scheme)
{
	size_t n = strlen(scheme);

	return t.n >= n && http_text_is((struct http_text){ t.p, n }, scheme) ? n : 0;
}

static const char *
parse_absolute(struct http_head *h)
{
	static const char slash[] = "/", asterisk[] = "*";
	struct http_text rest = h->target;
	size_t n = scheme_len(rest, "http://"), end = 0;

	if (scheme_len(rest, "https://") > 0)
		return "an https target, for which CONNECT is needed";
	if (n == 0)
		return "an invalid target";
	rest.p += n;
	rest.n -= n;
	while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?')
		end++;
	h->path = (struct http_text){ rest.p + end, rest.n - end };
	if (h->path.n == 0)
		h->path = is_method(h, "OPTIONS") ? (struct http_text){ asterisk, 1 }
						  : (struct http_text){ slash, 1 };
	else if (h->path.p[0] == '?')
		return "a target with a query and no path"; /* there is no "/" to point to */
	return domain_authority_parse(rest.p, end, 80, h->host, &h->host_kind, &h->port);
}

static const char *
parse_target(struct http_head *h)
{
	h->host[0] = '\0';
	h->host_kind = DOMAIN_NAME;
	h->port = 0;
	h->path = (struct http_text){ NULL, 0 };
	if (!all(h->target, TARGET))
		return "a byte in the target that has to be percent-encoded";
	if (is_method(h, "CONNECT")) {
		h->form = HTTP_FORM_AUTHORITY;
		return domain_authority_parse(h->target.p, h->target.n, 0, h->host, &h->host_kind,
		    &h->port);
	}
	if (h->target.p[0] == '/') {
		h->form = HTTP_FORM_ORIGIN;
		h->path = h->target;
		return NULL;
	}
	if (h->target.n == 1 && h->target.p[0] == '*') {
		h->form = HTTP_FORM_ASTERISK;
		h->path = h->target;
		return is_method(h, "OPTIONS") ? NULL : "a target \"*\", which is for OPTIONS only";
	}
	h->form = HTTP_FORM_ABSOLUTE;
	return parse_absolute(h);
}

static enum http_result
parse_request_line(struct http_text line, struct http_head *h, const char **why)
{
	const char *first = memchr(line.p, ' ', line.n), *second;
	size_t left;

	if (first == NULL)
		return bad(why, "a request line without a target");
	h->method = (struct http_text){ line.p, (size_t)(first - line.p) };
	left = line.n - h->method.n - 1;
	second = memchr(first + 1, ' ', left);
	if (second == NULL)
		return bad(why, "a request line without a version");
	h->target = (struct http_text){ first + 1, (size_t)(second - first) - 1 };
	if (!all(h->method, METHOD))
		return bad(why, "a method that is not a word in capitals");
	if (!parse_version((struct http_text){ second + 1, left - h->target.n - 1 }, &h->minor))
		return bad(why, "a request line that does not end with HTTP/1.0 or HTTP/1.1");
	*why = parse_target(h);
	return *why == NULL ? HTTP_OK : HTTP_BAD;
}

/* Parse Host; *port is 0 if it has none. Returns NULL, or what is wrong. */
static const char *
parse_host(struct http_text t, char host[DOMAIN_HOST_MAX + 1], enum domain_kind *kind,
    unsigned *port)
{
	const char *address_end = t.n > 0 && t.p[0] == '[' ? memchr(t.p, ']', t.n) : NULL;
	size_t skip = address_end == NULL ? 0 : (size_t)(address_end - t.p);

	*port = 0;
	if (t.n > 0 && memchr(t.p + skip, ':', t.n - skip) != NULL)
		return domain_authority_parse(t.p, t.n, 0, host, kind, port);
	return domain_host_parse(t.p, t.n, true, host, kind);
}

static const char *
use_host(struct http_head *h, const struct http_field *field)
{
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;
	unsigned port;
	const char *why;
	bool names = h->form == HTTP_FORM_ORIGIN || h->form == HTTP_FORM_ASTERISK;

	h->has_host_field = field != NULL;
	h->host_differs = false;
	/* Old clients leave Host out where the target has the host. */
	if (field == NULL)
		return names && h->minor >= 1 ? "no Host field" : NULL;
	why = parse_host(field->value, host, &kind, &port);
	if (why != NULL)
		return why;
	if (names) {
		memcpy(h->host, host, strlen(host) + 1);
		h->host_kind = kind;
		h->port = port;
	} else if (h->form == HTTP_FORM_ABSOLUTE) {
		h->host_differs = strcmp(h->host, host) != 0 || h->port != (port == 0 ? 80 : port);
	}
	return NULL;
}

enum http_result
http_request_parse(const void *bytes, size_t n, struct http_head *ret, const char **why)
{
	struct http_text all_bytes = { bytes, n }, line;
	struct framing_fields seen = { 0 };
	size_t at = 0;
	enum http_result r;

	r = next_line(all_bytes, &at, &line, why);
	if (r == HTTP_OK && line.n == 0)
		r = next_line(all_bytes, &at, &line, why);
	if (r != HTTP_OK)
		return r;
	r = parse_request_line(line, ret, why);
	if (r == HTTP_OK)
		r = parse_fields(all_bytes, &at, ret, &seen, why);
	if (r != HTTP_OK)
		return r;
	*why = parse_framing(ret, &seen);
	if (*why == NULL)
		*why = use_host(ret, seen.host);
	if (*why != NULL)
		return HTTP_BAD;
	/* Some clients send "Content-Length: 0" with CONNECT. */
	if (ret->form == HTTP_FORM_AUTHORITY) {
		if (ret->body == HTTP_BODY_CHUNKED || ret->length > 0)
			return bad(why, "a CONNECT with a body");
		ret->body = HTTP_BODY_NONE;
	}
	ret->expect_continue = ret->minor >= 1 && seen.expect_continue;
	ret->status = 0;
	ret->len = at;
	return HTTP_OK;
}

static enum http_result
parse_status_line(struct http_text line, struct http_head *h, const char **why)
{
	const char *p = line.p;

	if (line.n < 12 || !parse_version((struct http_text){ p, 8 }, &h->minor) || p[8] != ' ')
		return bad(why, "a status line that does not begin with HTTP/1.0 or HTTP/1.1");
	/* Some servers that send no reason leave out the space before it, too. */
	if (p[9] < '1' || p[9] > '9' || p[10] < '0' || p[10] > '9' || p[11] < '0' || p[11] > '9' ||
	    (line.n > 12 && p[12] != ' '))
		return bad(why, "a status that is not three digits");
	h->status =
	    (unsigned)(p[9] - '0') * 100 + (unsigned)(p[10] - '0') * 10 + (unsigned)(p[11] - '0');
	return HTTP_OK;
}

enum http_result
http_response_parse(const void *bytes, size_t n, bool to_head, bool to_connect,
    struct http_head *ret, const char **why)
{
	struct http_text all_bytes = { bytes, n }, line;
	struct framing_fields seen = { 0 };
	size_t at = 0;
	enum http_result r;

	r = next_line(all_bytes, &at, &line, why);
	if (r == HTTP_OK)
		r = parse_status_line(line, ret, why);
	if (r == HTTP_OK)
		r = parse_fields(all_bytes, &at, ret, &seen, why);
	if (r != HTTP_OK)
		return r;
	*why = parse_framing(ret, &seen);
	if (*why != NULL)
		return HTTP_BAD;
	if (to_head || ret->status < 200 || ret->status == 204 || ret->status == 304 ||
	    (to_connect && ret->status < 300)) {
		ret->body = HTTP_BODY_NONE;
		ret->length = 0;
	} else if (ret->body == HTTP_BODY_NONE) {
		ret->body = HTTP_BODY_CLOSE;
		ret->keep_alive = false;
	}
	ret->method = ret->target = ret->path = (struct http_text){ NULL, 0 };
	ret->form = HTTP_FORM_ORIGIN;
	ret->host[0] = '\0';
	ret->host_kind = DOMAIN_NAME;
	ret->port = 0;
	ret->has_host_field = ret->host_differs = ret->expect_continue = false;
	ret->len = at;
	return HTTP_OK;
}

const struct http_field *
http_field(const struct http_head *h, const char *lower, size_t i)
{
	for (size_t k = 0; k < h->n_fields; k++) {
		if (http_text_is(h->field[k].name, lower) && i-- == 0)
			return &h->field[k];
	}
	return NULL;
}

bool
http_is_hop(const struct http_head *h, const struct http_field *f)
{
	static const char *const names[] = { "connection", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade" };
	const struct http_field *connection;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (http_text_is(f->name, names[i]))
			return true;
	}
	if (scheme_len(f->name, "proxy-") > 0)
		return true;
	for (size_t i = 0; (connection = http_field(h, "connection", i)) != NULL; i++) {
		struct http_text rest = connection->value, option;

		while (next_listed(&rest, &option)) {
			if (same_text(option, f->name))
				return true;
		}
	}
	return false;
}
