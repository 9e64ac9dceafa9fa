/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/accept/http.c: the head of a request: what is accepted, and what is refused because it
 * has two readings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/accept/http.h"
#include "shared/base/cleanup.h"

#define T(text) (text), sizeof(text) - 1

/* Exactly as long, so that a read past the end is found; what follows the head is not part of
 * it. */
static char *
exact(const char *text, size_t len, const char *tail, size_t tail_len)
{
	char *copy = malloc(len + tail_len + (len + tail_len == 0));

	assert_non_null(copy);
	memcpy(copy, text, len);
	memcpy(copy + len, tail, tail_len);
	return copy;
}

static const struct {
	const char *text;
	size_t len;
} tails[] = {
	{ T("") },
	{ T("\r\n") },
	{ T(" x") },
	{ T("\0\xff") },
	{ T("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n") },
	{ T("Content-Length: 5\r\n\r\n") },
};

static const char *
body_text(const struct http_head *h, char *buf, size_t size)
{
	switch (h->body) {
	case HTTP_BODY_NONE:
		return "none";
	case HTTP_BODY_LENGTH:
		snprintf(buf, size, "%llu", (unsigned long long)h->length);
		return buf;
	case HTTP_BODY_CHUNKED:
		return "chunked";
	case HTTP_BODY_CLOSE:
		return "close";
	}
	return "?";
}

/* Prints what was parsed as one line: METHOD form host port path 1.x body, then letters: k(eep
 * alive), u(pgrade), e(xpect), h(ost field), d(iffers); then the number of fields. */
static void
request_line(const struct http_head *h, char *buf, size_t size)
{
	static const char *const forms[] = { "authority", "absolute", "origin", "asterisk" };
	static const char *const kinds[] = { "", "v4:", "v6:" };
	char number[32];

	snprintf(buf, size, "%.*s %s %s%s %u %.*s 1.%u %s %s%s%s%s%s %zu", (int)h->method.n,
	    h->method.p, forms[h->form], kinds[h->host_kind], h->host[0] == '\0' ? "-" : h->host,
	    h->port, h->path.n == 0 ? 1 : (int)h->path.n, h->path.n == 0 ? "-" : h->path.p,
	    h->minor, body_text(h, number, sizeof(number)), h->keep_alive ? "k" : "",
	    h->upgrade ? "u" : "", h->expect_continue ? "e" : "", h->has_host_field ? "h" : "",
	    h->host_differs ? "d" : "", h->n_fields);
}

#define GET_A "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"

static const struct {
	const char *label, *text;
	size_t len;
	const char *want;
} requests[] = {
	/* clang-format off */
	{ "CONNECT", T("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"), "CONNECT authority a.test 443 - 1.1 none kh 1" },
	{ "CONNECT, as old clients do", T("CONNECT a.test:22 HTTP/1.0\r\n\r\n"), "CONNECT authority a.test 22 - 1.0 none  0" },
	{ "CONNECT of 1.1 without Host", T("CONNECT a.test:22 HTTP/1.1\r\n\r\n"), "CONNECT authority a.test 22 - 1.1 none k 0" },
	{ "CONNECT, canonical", T("CONNECT A.Test.:443 HTTP/1.1\r\n\r\n"), "CONNECT authority a.test 443 - 1.1 none k 0" },
	{ "CONNECT to IPv4", T("CONNECT 192.0.2.1:443 HTTP/1.1\r\n\r\n"), "CONNECT authority v4:192.0.2.1 443 - 1.1 none k 0" },
	{ "CONNECT to IPv6", T("CONNECT [2001:DB8:0::1]:443 HTTP/1.1\r\n\r\n"), "CONNECT authority v6:[2001:db8::1] 443 - 1.1 none k 0" },
	{ "CONNECT: the authority decides", T("CONNECT a.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n"), "CONNECT authority a.test 443 - 1.1 none kh 1" },
	{ "CONNECT with Content-Length: 0", T("CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "CONNECT authority a.test 443 - 1.1 none k 1" },
	{ "absolute", T(GET_A "\r\n"), "GET absolute a.test 80 / 1.1 none kh 1" },
	{ "absolute, port and query", T("GET http://a.test:8080/b?c=d HTTP/1.1\r\nHost: a.test:8080\r\n\r\n"), "GET absolute a.test 8080 /b?c=d 1.1 none kh 1" },
	{ "absolute, no path", T("GET http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 1" },
	{ "absolute, Host with the default port", T("GET http://a.test HTTP/1.1\r\nHost: A.test:80\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 1" },
	{ "absolute, Host differs", T("GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n"), "GET absolute a.test 80 / 1.1 none khd 1" },
	{ "absolute, Host's port differs", T("GET http://a.test/ HTTP/1.1\r\nHost: a.test:81\r\n\r\n"), "GET absolute a.test 80 / 1.1 none khd 1" },
	{ "absolute, Host has no port", T("GET http://a.test:81/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET absolute a.test 81 / 1.1 none khd 1" },
	{ "absolute without Host", T("GET http://a.test/ HTTP/1.1\r\n\r\n"), "GET absolute a.test 80 / 1.1 none k 0" },
	{ "absolute, scheme in capitals", T("GET HTTP://A.TEST/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 1" },
	{ "absolute, IPv6", T("GET http://[::1]/x HTTP/1.1\r\nHost: [::1]\r\n\r\n"), "GET absolute v6:[::1] 80 /x 1.1 none kh 1" },
	{ "absolute, OPTIONS without a path", T("OPTIONS http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n"), "OPTIONS absolute a.test 80 * 1.1 none kh 1" },
	{ "'@', '\\' and ':' in a path are the origin's", T("GET http://a.test/@b.test:81\\ HTTP/1.1\r\n\r\n"), "GET absolute a.test 80 /@b.test:81\\ 1.1 none k 0" },
	{ "origin", T("GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET origin a.test 0 /x 1.1 none kh 1" },
	{ "origin, Host with a port", T("GET /x HTTP/1.1\r\nhOST:\t A.TEST.:81 \t\r\n\r\n"), "GET origin a.test 81 /x 1.1 none kh 1" },
	{ "origin, Host is an address", T("GET /x HTTP/1.1\r\nHost: [2001:db8::1]:81\r\n\r\n"), "GET origin v6:[2001:db8::1] 81 /x 1.1 none kh 1" },
	{ "origin, Host is an address without a port", T("GET /x HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n"), "GET origin v6:[2001:db8::1] 0 /x 1.1 none kh 1" },
	{ "origin of 1.0 without Host", T("GET /x HTTP/1.0\r\n\r\n"), "GET origin - 0 /x 1.0 none  0" },
	{ "origin, two slashes", T("GET //b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET origin a.test 0 //b.test/ 1.1 none kh 1" },
	{ "asterisk", T("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"), "OPTIONS asterisk a.test 0 * 1.1 none kh 1" },
	{ "an empty line before it", T("\r\nGET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET origin a.test 0 /x 1.1 none kh 1" },
	{ "a method of its own", T("M-SEARCH /x HTTP/1.1\r\nHost: a.test\r\n\r\n"), "M-SEARCH origin a.test 0 /x 1.1 none kh 1" },
	{ "length", T("POST http://a.test/ HTTP/1.1\r\nContent-Length: 12\r\n\r\n"), "POST absolute a.test 80 / 1.1 12 k 1" },
	{ "length 0", T("POST http://a.test/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "POST absolute a.test 80 / 1.1 0 k 1" },
	{ "the largest length", T("POST http://a.test/ HTTP/1.1\r\nContent-Length: 9223372036854775807\r\n\r\n"), "POST absolute a.test 80 / 1.1 9223372036854775807 k 1" },
	{ "chunked", T("POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"), "POST absolute a.test 80 / 1.1 chunked k 1" },
	{ "close", T(GET_A "Connection: close\r\n\r\n"), "GET absolute a.test 80 / 1.1 none h 2" },
	{ "close in a list", T(GET_A "Connection: foo, ,CLOSE\t,keep-alive\r\n\r\n"), "GET absolute a.test 80 / 1.1 none h 2" },
	{ "close in the second", T(GET_A "Connection: keep-alive\r\nConnection: close\r\n\r\n"), "GET absolute a.test 80 / 1.1 none h 3" },
	{ "closed is not close", T(GET_A "Connection: closed\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 2" },
	{ "1.0 ends", T("GET http://a.test/ HTTP/1.0\r\n\r\n"), "GET absolute a.test 80 / 1.0 none  0" },
	{ "1.0 kept alive", T("GET http://a.test/ HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), "GET absolute a.test 80 / 1.0 none k 1" },
	{ "upgrade", T(GET_A "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kuh 3" },
	{ "upgrade that Connection does not list", T(GET_A "Upgrade: websocket\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 2" },
	{ "upgrade to nothing", T(GET_A "Connection: Upgrade\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 2" },
	{ "upgrade of 1.0", T("GET http://a.test/ HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "GET absolute a.test 80 / 1.0 none  2" },
	{ "expect", T("PUT http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n"), "PUT absolute a.test 80 / 1.1 1 ke 2" },
	{ "expect of 1.0", T("PUT http://a.test/ HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"), "PUT absolute a.test 80 / 1.0 1  2" },
	{ "an empty value, one with bytes that are not ASCII", T(GET_A "A:\r\nB: \xc3\xbc\xff\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 3" },
	{ "16 options", T(GET_A "Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p\r\n\r\n"), "GET absolute a.test 80 / 1.1 none kh 2" },
	/* clang-format on */
};

static void
request_case(void **state)
{
	size_t i = (uintptr_t)*state, len = requests[i].len;
	struct http_head h;
	const char *why;
	char got[512];

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text = exact(requests[i].text, len, tails[k].text, tails[k].len);

		memset(&h, 0xa5, sizeof(h));
		assert_int_equal(http_request_parse(text, len + tails[k].len, &h, &why), HTTP_OK);
		assert_int_equal(h.len, len);
		request_line(&h, got, sizeof(got));
		assert_string_equal(got, requests[i].want);
	}
	for (size_t n = 0; n < len; n++) {
		cleanup_free char *text = exact(requests[i].text, n, "", 0);

		if (http_request_parse(text, n, &h, &why) != HTTP_INCOMPLETE)
			fail_msg("its first %zu bytes are not incomplete", n);
	}
}

/* Bad requests, each up to its error: nothing that follows may repair it, and no part of it may
 * pass for a complete head. */
static const struct {
	const char *label, *text;
	size_t len;
	const char *why;
} bad_requests[] = {
	/* clang-format off */
	/* framing */
	{ "CL and TE", T(GET_A "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), "Content-Length and Transfer-Encoding" },
	{ "TE and CL", T(GET_A "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), "Content-Length and Transfer-Encoding" },
	{ "TE and CL 0", T(GET_A "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"), "Content-Length and Transfer-Encoding" },
	{ "TE twice", T(GET_A "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), "two Transfer-Encoding" },
	{ "TE twice, in another case", T(GET_A "Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n"), "two Transfer-Encoding" },
	{ "TE chunked, identity", T(GET_A "Transfer-Encoding: chunked, identity\r\n\r\n"), "not \"chunked\"" },
	{ "TE identity, chunked", T(GET_A "Transfer-Encoding: identity, chunked\r\n\r\n"), "not \"chunked\"" },
	{ "TE chunked, chunked", T(GET_A "Transfer-Encoding: chunked, chunked\r\n\r\n"), "not \"chunked\"" },
	{ "TE gzip, chunked", T(GET_A "Transfer-Encoding: gzip, chunked\r\n\r\n"), "not \"chunked\"" },
	{ "TE identity", T(GET_A "Transfer-Encoding: identity\r\n\r\n"), "not \"chunked\"" },
	{ "TE xchunked", T(GET_A "Transfer-Encoding: xchunked\r\n\r\n"), "not \"chunked\"" },
	{ "TE chunkedx", T(GET_A "Transfer-Encoding: chunkedx\r\n\r\n"), "not \"chunked\"" },
	{ "TE chunke", T(GET_A "Transfer-Encoding: chunke\r\n\r\n"), "not \"chunked\"" },
	{ "TE with a comma", T(GET_A "Transfer-Encoding: chunked,\r\n\r\n"), "not \"chunked\"" },
	{ "TE with a parameter", T(GET_A "Transfer-Encoding: chunked;q=1\r\n\r\n"), "not \"chunked\"" },
	{ "TE in quotes", T(GET_A "Transfer-Encoding: \"chunked\"\r\n\r\n"), "not \"chunked\"" },
	{ "TE empty", T(GET_A "Transfer-Encoding:\r\n\r\n"), "not \"chunked\"" },
	{ "TE with a vertical tab", T(GET_A "Transfer-Encoding: \x0b" "chunked\r\n\r\n"), "control character" },
	{ "TE with a space that is none", T(GET_A "Transfer-Encoding: \xa0" "chunked\r\n\r\n"), "not \"chunked\"" },
	{ "TE folded", T(GET_A "Transfer-Encoding:\r\n chunked\r\n\r\n"), "not \"chunked\"|folded" },
	{ "TE in 1.0", T("POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), "in HTTP/1.0" },
	{ "TE and space before ':'", T(GET_A "Transfer-Encoding : chunked\r\n\r\n"), "white space before" },
	{ "TE and tab before ':'", T(GET_A "Transfer-Encoding\t: chunked\r\n\r\n"), "white space before" },
	{ "TE behind a space", T(GET_A " Transfer-Encoding: chunked\r\n\r\n"), "folded" },
	{ "CL twice, the same", T(GET_A "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), "two Content-Length" },
	{ "CL twice, different", T(GET_A "Content-Length: 5\r\ncontent-length: 6\r\n\r\n"), "two Content-Length" },
	{ "CL a list of the same", T(GET_A "Content-Length: 5, 5\r\n\r\n"), "not a plain number" },
	{ "CL +", T(GET_A "Content-Length: +5\r\n\r\n"), "not a plain number" },
	{ "CL -", T(GET_A "Content-Length: -5\r\n\r\n"), "not a plain number" },
	{ "CL with a space inside", T(GET_A "Content-Length: 5 5\r\n\r\n"), "not a plain number" },
	{ "CL hex", T(GET_A "Content-Length: 0x5\r\n\r\n"), "not a plain number" },
	{ "CL with leading zeros", T(GET_A "Content-Length: 010\r\n\r\n"), "not a plain number" },
	{ "CL 00", T(GET_A "Content-Length: 00\r\n\r\n"), "not a plain number" },
	{ "CL with a point", T(GET_A "Content-Length: 5.0\r\n\r\n"), "not a plain number" },
	{ "CL with an exponent", T(GET_A "Content-Length: 1e1\r\n\r\n"), "not a plain number" },
	{ "CL empty", T(GET_A "Content-Length: \r\n\r\n"), "not a plain number" },
	{ "CL 2^63", T(GET_A "Content-Length: 9223372036854775808\r\n\r\n"), "too large" },
	{ "CL 2^64 + 5", T(GET_A "Content-Length: 18446744073709551621\r\n\r\n"), "not a plain number" },
	{ "CL of 100 digits", T(GET_A "Content-Length: 1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000005\r\n\r\n"), "not a plain number" },
	{ "CONNECT with a length", T("CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), "CONNECT with a body" },
	{ "CONNECT chunked", T("CONNECT a.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), "CONNECT with a body" },
	/* lines */
	{ "bare LF, request line", T("GET http://a.test/ HTTP/1.1\n"), "LF alone" },
	{ "bare LF, field", T(GET_A "A: b\nContent-Length: 5\r\n\r\n"), "LF alone" },
	{ "bare LF, end", T(GET_A "\n"), "LF alone" },
	{ "bare CR, value", T(GET_A "A: b\rContent-Length: 5\r\n\r\n"), "CR without LF" },
	{ "bare CR, end", T(GET_A "\r\r\n"), "CR without LF" },
	{ "CR CR LF", T(GET_A "A: b\r\r\n"), "CR without LF" },
	{ "two empty lines before", T("\r\n\r\nGET http://a.test/ HTTP/1.1\r\n"), "without a target" },
	{ "an empty line with LF alone before", T("\nGET http://a.test/ HTTP/1.1\r\n"), "LF alone" },
	{ "obs-fold", T(GET_A "A: b\r\n c\r\n\r\n"), "folded" },
	{ "obs-fold, tab", T(GET_A "A: b\r\n\tc\r\n\r\n"), "folded" },
	{ "a folded first field", T("GET http://a.test/ HTTP/1.1\r\n Host: a.test\r\n"), "folded" },
	{ "NUL in a value", T(GET_A "A: b\0c\r\n\r\n"), "control character" },
	{ "NUL in a name", T(GET_A "A\0: b\r\n\r\n"), "control character" },
	{ "NUL in the target", T("GET http://a.test\0.b.test/ HTTP/1.1\r\n"), "control character" },
	{ "escape in a value", T(GET_A "A: \x1b[31m\r\n\r\n"), "control character" },
	{ "DEL in a value", T(GET_A "A: \x7f\r\n\r\n"), "control character" },
	/* names */
	{ "no ':'", T(GET_A "A\r\n\r\n"), "without ':'" },
	{ "no name", T(GET_A ": b\r\n\r\n"), "field name with an invalid byte" },
	{ "a name with a space", T(GET_A "A B: c\r\n\r\n"), "white space before" },
	{ "a name with a slash", T(GET_A "A/B: c\r\n\r\n"), "field name with an invalid byte" },
	{ "a name in brackets", T(GET_A "(A): c\r\n\r\n"), "field name with an invalid byte" },
	{ "a name in quotes", T(GET_A "\"A\": c\r\n\r\n"), "field name with an invalid byte" },
	{ "a name with a high byte", T(GET_A "A\xc3\xbc: c\r\n\r\n"), "field name with an invalid byte" },
	{ "too many options", T(GET_A "Connection: a,b,c,d,e,f,g,h\r\nConnection: i,j,k,l,m,n,o,p,q\r\n\r\n"), "too many options" },
	{ "too many options, empty", T(GET_A "Connection: ,,,,,,,,,,,,,,,,,,,,,,,,\r\n\r\n"), "too many options" },
	/* Host */
	{ "Host twice", T(GET_A "Host: b.test\r\n\r\n"), "two Host" },
	{ "Host twice, the same", T(GET_A "host: a.test\r\n\r\n"), "two Host" },
	{ "Host: a list", T("GET /x HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n"), "" },
	{ "Host: two names", T("GET /x HTTP/1.1\r\nHost: a.test b.test\r\n\r\n"), "" },
	{ "Host: empty", T("GET /x HTTP/1.1\r\nHost:\r\n\r\n"), "" },
	{ "Host: userinfo", T("GET /x HTTP/1.1\r\nHost: a.test@b.test\r\n\r\n"), "" },
	{ "Host: a URL", T("GET /x HTTP/1.1\r\nHost: http://a.test\r\n\r\n"), "" },
	{ "Host: a path", T("GET /x HTTP/1.1\r\nHost: a.test/b\r\n\r\n"), "" },
	{ "Host: a port that is none", T("GET /x HTTP/1.1\r\nHost: a.test:\r\n\r\n"), "" },
	{ "Host: two ports", T("GET /x HTTP/1.1\r\nHost: a.test:80:81\r\n\r\n"), "" },
	{ "Host: decimal", T("GET /x HTTP/1.1\r\nHost: 2130706433\r\n\r\n"), "" },
	{ "Host: brackets that stay open", T("GET /x HTTP/1.1\r\nHost: [::1\r\n\r\n"), "" },
	{ "Host: no host, of an absolute form", T("GET http://a.test/ HTTP/1.1\r\nHost: a b\r\n\r\n"), "" },
	{ "no Host, origin", T("GET /x HTTP/1.1\r\n\r\n"), "no Host" },
	{ "no Host, asterisk", T("OPTIONS * HTTP/1.1\r\n\r\n"), "no Host" },
	/* targets */
	{ "userinfo", T("GET http://a.test@b.test/ HTTP/1.1\r\n"), "" },
	{ "userinfo with a password", T("GET http://a.test:80@b.test/ HTTP/1.1\r\n"), "" },
	{ "userinfo, CONNECT", T("CONNECT a.test:443@b.test:443 HTTP/1.1\r\n"), "" },
	{ "a fragment", T("GET http://a.test#@b.test/ HTTP/1.1\r\n"), "percent-encoded" },
	{ "a fragment in a path", T("GET /x#y HTTP/1.1\r\n"), "percent-encoded" },
	{ "a backslash", T("GET http://a.test\\@b.test/ HTTP/1.1\r\n"), "" },
	{ "backslashes for slashes", T("GET http:\\\\a.test/ HTTP/1.1\r\n"), "an invalid target" },
	{ "two ports", T("GET http://a.test:80:81/ HTTP/1.1\r\n"), "" },
	{ "two ports, CONNECT", T("CONNECT a.test:443:22 HTTP/1.1\r\n"), "" },
	{ "no port, CONNECT", T("CONNECT a.test HTTP/1.1\r\n"), "" },
	{ "port 0", T("CONNECT a.test:0 HTTP/1.1\r\n"), "" },
	{ "port 65536", T("CONNECT a.test:65536 HTTP/1.1\r\n"), "" },
	{ "port with a sign", T("CONNECT a.test:+443 HTTP/1.1\r\n"), "" },
	{ "a URL, CONNECT", T("CONNECT http://a.test:443/ HTTP/1.1\r\n"), "" },
	{ "a path, CONNECT", T("CONNECT /a.test:443 HTTP/1.1\r\n"), "" },
	{ "a path behind, CONNECT", T("CONNECT a.test:443/x HTTP/1.1\r\n"), "" },
	{ "an asterisk, CONNECT", T("CONNECT * HTTP/1.1\r\n"), "" },
	{ "an authority, GET", T("GET a.test:80 HTTP/1.1\r\n"), "an invalid target" },
	{ "an asterisk, GET", T("GET * HTTP/1.1\r\n"), "OPTIONS only" },
	{ "https", T("GET https://a.test/ HTTP/1.1\r\n"), "CONNECT is needed" },
	{ "ftp", T("GET ftp://a.test/ HTTP/1.1\r\n"), "an invalid target" },
	{ "http: with one slash", T("GET http:/a.test/ HTTP/1.1\r\n"), "an invalid target" },
	{ "no host", T("GET http:/// HTTP/1.1\r\n"), "" },
	{ "a query and no path", T("GET http://a.test?b HTTP/1.1\r\n"), "no path" },
	{ "decimal", T("GET http://2130706433/ HTTP/1.1\r\n"), "" },
	{ "hex", T("GET http://0x7f.1/ HTTP/1.1\r\n"), "" },
	{ "short", T("GET http://127.1/ HTTP/1.1\r\n"), "" },
	{ "a zone", T("GET http://[fe80::1%25lo]/ HTTP/1.1\r\n"), "" },
	{ "percent in a host", T("GET http://a%2etest/ HTTP/1.1\r\n"), "" },
	{ "a high byte in a host", T("GET http://\xc3\xbc.test/ HTTP/1.1\r\n"), "percent-encoded" },
	{ "a high byte in a path", T("GET /\xc3\xbc HTTP/1.1\r\n"), "percent-encoded" },
	{ "a tab in the target", T("GET /x\ty HTTP/1.1\r\n"), "percent-encoded" },
	/* request lines */
	{ "HTTP/0.9", T("GET /x\r\n"), "without a version" },
	{ "a method alone", T("GET\r\n"), "without a target" },
	{ "HTTP/2's preface", T("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "HTTP/1.0 or" },
	{ "HTTP/1.2", T("GET /x HTTP/1.2\r\n"), "HTTP/1.0 or" },
	{ "HTTP/1.10", T("GET /x HTTP/1.10\r\n"), "HTTP/1.0 or" },
	{ "HTTP/1.", T("GET /x HTTP/1.\r\n"), "HTTP/1.0 or" },
	{ "HTTP/01.1", T("GET /x HTTP/01.1\r\n"), "HTTP/1.0 or" },
	{ "http/1.1", T("GET /x http/1.1\r\n"), "HTTP/1.0 or" },
	{ "SPDY", T("GET /x SPDY/1\r\n"), "HTTP/1.0 or" },
	{ "space behind the version", T("GET /x HTTP/1.1 \r\n"), "HTTP/1.0 or" },
	{ "a space in the target", T("GET /x y HTTP/1.1\r\n"), "HTTP/1.0 or" },
	{ "two spaces before the target", T("GET  /x HTTP/1.1\r\n"), "HTTP/1.0 or" },
	{ "two spaces behind the target", T("GET /x  HTTP/1.1\r\n"), "HTTP/1.0 or" },
	{ "no target", T("GET  HTTP/1.1\r\n"), "percent-encoded" },
	{ "tabs for spaces", T("GET\t/x\tHTTP/1.1\r\n"), "without a target" },
	{ "a space first", T(" GET /x HTTP/1.1\r\n"), "HTTP/1.0 or|capitals" },
	{ "a method in small letters", T("get /x HTTP/1.1\r\n"), "capitals" },
	{ "connect", T("connect a.test:443 HTTP/1.1\r\n"), "capitals" },
	{ "a method with a colon", T("GET: /x HTTP/1.1\r\n"), "capitals" },
	{ "TLS", T("\x16\x03\x01"), "control character" },
	{ "SOCKS", T("\x05\x01"), "control character" },
	/* clang-format on */
};

static bool
one_of(const char *got, const char *wanted)
{
	cleanup_free char *copy = strdup(wanted);
	char *save;

	assert_non_null(copy);
	if (copy[0] == '\0') /* the host's own reason: domain_test checks it */
		return got[0] != '\0';
	for (char *w = strtok_r(copy, "|", &save); w != NULL; w = strtok_r(NULL, "|", &save)) {
		if (strstr(got, w) != NULL)
			return true;
	}
	return false;
}

static void
bad_request_case(void **state)
{
	size_t i = (uintptr_t)*state, len = bad_requests[i].len;
	struct http_head h;
	const char *why;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text =
		    exact(bad_requests[i].text, len, tails[k].text, tails[k].len);

		why = "";
		assert_int_equal(http_request_parse(text, len + tails[k].len, &h, &why), HTTP_BAD);
		if (!one_of(why, bad_requests[i].why))
			fail_msg("refused as: %s", why);
	}
	for (size_t n = 0; n < len; n++) {
		cleanup_free char *text = exact(bad_requests[i].text, n, "", 0);

		assert_int_not_equal(http_request_parse(text, n, &h, &why), HTTP_OK);
	}
}

/* ---- responses ---- */

#define OK_11 "HTTP/1.1 200 OK\r\n"

/* STATUS 1.x body, k(eep alive), u(pgrade) */
static const struct {
	const char *label;
	bool to_head, to_connect;
	const char *text;
	size_t len;
	const char *want;
} responses[] = {
	/* clang-format off */
	{ "length", false, false, T(OK_11 "Content-Length: 5\r\n\r\n"), "200 1.1 5 k" },
	{ "chunked", false, false, T(OK_11 "transfer-encoding: chunked\r\n\r\n"), "200 1.1 chunked k" },
	{ "until the end", false, false, T(OK_11 "\r\n"), "200 1.1 close " },
	{ "no reason", false, false, T("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"), "404 1.1 0 k" },
	{ "no reason, no space", false, false, T("HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n"), "404 1.1 0 k" },
	{ "a reason with high bytes", false, false, T("HTTP/1.1 404 Non trouv\xe9\r\nContent-Length: 0\r\n\r\n"), "404 1.1 0 k" },
	{ "204", false, false, T("HTTP/1.1 204 No Content\r\n\r\n"), "204 1.1 none k" },
	{ "204 with a length", false, false, T("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"), "204 1.1 none k" },
	{ "304 with a length", false, false, T("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), "304 1.1 none k" },
	{ "100", false, false, T("HTTP/1.1 100 Continue\r\n\r\n"), "100 1.1 none k" },
	{ "101", false, false, T("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), "101 1.1 none ku" },
	{ "to HEAD", true, false, T(OK_11 "Content-Length: 5\r\n\r\n"), "200 1.1 none k" },
	{ "to HEAD, chunked", true, false, T(OK_11 "Transfer-Encoding: chunked\r\n\r\n"), "200 1.1 none k" },
	{ "to HEAD, nothing said", true, false, T(OK_11 "\r\n"), "200 1.1 none k" },
	{ "to CONNECT", false, true, T("HTTP/1.1 200 Connection established\r\n\r\n"), "200 1.1 none k" },
	{ "to CONNECT, with a length", false, true, T(OK_11 "Content-Length: 5\r\n\r\n"), "200 1.1 none k" },
	{ "to CONNECT, refused", false, true, T("HTTP/1.1 407 No\r\nContent-Length: 5\r\n\r\n"), "407 1.1 5 k" },
	{ "close", false, false, T(OK_11 "Content-Length: 5\r\nConnection: close\r\n\r\n"), "200 1.1 5 " },
	{ "1.0", false, false, T("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n"), "200 1.0 5 " },
	{ "1.0 kept alive", false, false, T("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n"), "200 1.0 5 k" },
	{ "1.0 kept alive, and no length", false, false, T("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n"), "200 1.0 close " },
	/* clang-format on */
};

static void
response_case(void **state)
{
	size_t i = (uintptr_t)*state, len = responses[i].len;
	struct http_head h;
	const char *why;
	char got[128], number[32];

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text =
		    exact(responses[i].text, len, tails[k].text, tails[k].len);

		memset(&h, 0xa5, sizeof(h));
		assert_int_equal(http_response_parse(text, len + tails[k].len, responses[i].to_head,
				     responses[i].to_connect, &h, &why),
		    HTTP_OK);
		assert_int_equal(h.len, len);
		snprintf(got, sizeof(got), "%u 1.%u %s %s%s", h.status, h.minor,
		    body_text(&h, number, sizeof(number)), h.keep_alive ? "k" : "",
		    h.upgrade ? "u" : "");
		assert_string_equal(got, responses[i].want);
	}
	for (size_t n = 0; n < len; n++) {
		cleanup_free char *text = exact(responses[i].text, n, "", 0);

		if (http_response_parse(text, n, responses[i].to_head, responses[i].to_connect, &h,
			&why) != HTTP_INCOMPLETE)
			fail_msg("its first %zu bytes are not incomplete", n);
	}
}

static const struct {
	const char *label, *text;
	size_t len;
	const char *why;
} bad_responses[] = {
	/* clang-format off */
	{ "an empty line before", T("\r\nHTTP/1.1 200 OK\r\n"), "status line" },
	{ "HTTP/2", T("HTTP/2 200\r\n"), "status line" },
	{ "HTTP/2.0", T("HTTP/2.0 200 OK\r\n"), "status line" },
	{ "ICY", T("ICY 200 OK\r\n"), "status line" },
	{ "HTTP/0.9", T("<html>\r\n"), "status line" },
	{ "a status of two digits", T("HTTP/1.1 20 OK\r\n"), "three digits" },
	{ "a status of four digits", T("HTTP/1.1 2000 OK\r\n"), "three digits" },
	{ "status 099", T("HTTP/1.1 099 OK\r\n"), "three digits" },
	{ "a status with a sign", T("HTTP/1.1 +20 OK\r\n"), "three digits" },
	{ "two spaces", T("HTTP/1.1  200 OK\r\n"), "three digits" },
	{ "LF alone", T("HTTP/1.1 200 OK\n\n"), "LF alone" },
	{ "CL and TE", T(OK_11 "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), "Content-Length and" },
	{ "CL twice", T(OK_11 "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), "two Content-Length" },
	{ "TE gzip", T(OK_11 "Transfer-Encoding: gzip\r\n\r\n"), "not \"chunked\"" },
	{ "TE in 1.0", T("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), "in HTTP/1.0" },
	{ "TE of 204 that is none", T("HTTP/1.1 204 OK\r\nTransfer-Encoding: x\r\n\r\n"), "not \"chunked\"" },
	{ "folded", T(OK_11 "A: b\r\n c\r\n\r\n"), "folded" },
	{ "space before ':'", T(OK_11 "Content-Length : 5\r\n\r\n"), "white space before" },
	{ "NUL", T(OK_11 "A: \0\r\n\r\n"), "control character" },
	/* clang-format on */
};

static void
bad_response_case(void **state)
{
	size_t i = (uintptr_t)*state, len = bad_responses[i].len;
	struct http_head h;
	const char *why;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text =
		    exact(bad_responses[i].text, len, tails[k].text, tails[k].len);

		why = "";
		assert_int_equal(http_response_parse(text, len + tails[k].len, false, false, &h,
				     &why),
		    HTTP_BAD);
		if (!one_of(why, bad_responses[i].why))
			fail_msg("refused as: %s", why);
	}
}

/* ---- fields ---- */

static void
fields_are_bounded(void **state)
{
	static const char line[] = "A: b\r\n";
	cleanup_free char *text = malloc(64 + (HTTP_FIELDS_MAX + 1) * sizeof(line));
	size_t n = (size_t)sprintf(text, "GET / HTTP/1.0\r\n");
	struct http_head h;
	const char *why;

	for (size_t i = 0; i < HTTP_FIELDS_MAX; i++)
		n += (size_t)sprintf(text + n, line);
	assert_int_equal(http_request_parse(text, n, &h, &why), HTTP_INCOMPLETE);
	memcpy(text + n, "\r\n", 2);
	assert_int_equal(http_request_parse(text, n + 2, &h, &why), HTTP_OK);
	assert_int_equal(h.n_fields, HTTP_FIELDS_MAX);
	memcpy(text + n, "A: b\r\n", 6);
	assert_int_equal(http_request_parse(text, n + 6, &h, &why), HTTP_BAD);
	assert_string_equal(why, "too many fields");
}

/* The code that holds the bytes limits the length of a line: PROXY_HEAD_MAX. */
static void
a_line_may_be_long(void **state)
{
	size_t value = 15000;
	cleanup_free char *text = malloc(value + 64);
	size_t n = (size_t)sprintf(text, "GET / HTTP/1.0\r\nCookie: ");
	struct http_head h;
	const char *why;

	memset(text + n, 'c', value);
	n += value;
	assert_int_equal(http_request_parse(text, n, &h, &why), HTTP_INCOMPLETE);
	memcpy(text + n, "\r\n\r\n", 4);
	assert_int_equal(http_request_parse(text, n + 4, &h, &why), HTTP_OK);
	assert_int_equal(h.field[0].value.n, value);
}

static void
fields_are_found(void **state)
{
	static const char text[] = GET_A "Cookie: a \r\nX:\r\ncookie:\tb\r\nCookies: c\r\n\r\n";
	struct http_head h;
	const char *why;
	const struct http_field *f;

	assert_int_equal(http_request_parse(text, sizeof(text) - 1, &h, &why), HTTP_OK);
	f = http_field(&h, "cookie", 0);
	assert_non_null(f);
	assert_true(f->value.n == 1 && f->value.p[0] == 'a');
	f = http_field(&h, "cookie", 1);
	assert_non_null(f);
	assert_true(f->value.n == 1 && f->value.p[0] == 'b');
	assert_null(http_field(&h, "cookie", 2));
	f = http_field(&h, "x", 0);
	assert_non_null(f);
	assert_int_equal(f->value.n, 0);
	assert_null(http_field(&h, "cook", 0));
}

static void
texts_are_compared_whole(void **state)
{
	assert_true(http_text_is((struct http_text){ "HoSt", 4 }, "host"));
	assert_false(http_text_is((struct http_text){ "HoSt", 3 }, "host"));
	assert_false(http_text_is((struct http_text){ "hosts", 5 }, "host"));
	assert_false(http_text_is((struct http_text){ "hos\0", 4 }, "hos"));
	assert_true(http_text_is((struct http_text){ NULL, 0 }, ""));
	/* '[' and '{', '@' and '`' differ only in the bit that separates upper from lower case. */
	assert_false(http_text_is((struct http_text){ "[", 1 }, "{"));
	assert_false(http_text_is((struct http_text){ "@", 1 }, "`"));
}

static void
hop_by_hop(void **state)
{
	static const char text[] =
	    GET_A "Connection: close, X-One,X-Thre\r\nConnection: x-TWO,X-Threee\r\nX-one: 1\r\n"
		  "X-Two: 2\r\nX-Three: 3\r\nKeep-Alive: 5\r\n"
		  "Proxy-Authorization: Basic eA==\r\nProxy-Connection: close\r\n"
		  "Proxy: a\r\nTE: trailers\r\nTrailer: a\r\n"
		  "Transfer-Encoding: chunked\r\nUpgrade: a\r\n"
		  "Authorization: Basic eA==\r\nAccept-Encoding: gzip\r\n\r\n";
	static const char *const end_to_end[] = { "host", "x-three", "proxy", "authorization",
		"accept-encoding" };
	struct http_head h;
	const char *why;
	size_t n = 0;

	assert_int_equal(http_request_parse(text, sizeof(text) - 1, &h, &why), HTTP_OK);
	for (size_t i = 0; i < h.n_fields; i++) {
		bool want = true;

		for (size_t k = 0; k < N_ELEMENTS(end_to_end); k++) {
			if (http_text_is(h.field[i].name, end_to_end[k]))
				want = false;
		}
		if (http_is_hop(&h, &h.field[i]) != want)
			fail_msg("%.*s", (int)h.field[i].name.n, h.field[i].name.p);
		n += !want;
	}
	assert_int_equal(n, N_ELEMENTS(end_to_end));
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(requests) + N_ELEMENTS(bad_requests) +
	    N_ELEMENTS(responses) + N_ELEMENTS(bad_responses) + 5];
	size_t n = 0;

#define ADD(cases, run)                                                                            \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ cases[i].label, run, NULL, NULL, (void *)i }
	ADD(requests, request_case);
	ADD(bad_requests, bad_request_case);
	ADD(responses, response_case);
	ADD(bad_responses, bad_response_case);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(fields_are_bounded);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_line_may_be_long);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(fields_are_found);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(texts_are_compared_whole);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(hop_by_hop);
	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
