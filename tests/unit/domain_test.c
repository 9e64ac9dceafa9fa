/* SPDX-License-Identifier: Apache-2.0 */
/* shared/rules/domain.c: valid hosts, valid patterns, and which pattern matches which host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/rules/domain.h"
#include "tests/kit/cases.h"
#include "tests/kit/random.h"

/* ---- patterns ---- */

/* clang-format off */
static const struct {
	const char *label, *pattern, *want; /* part of the message; NULL: valid */
} patterns[] = {
	{ "exact", "example.test", NULL },
	{ "one label", "localhost", NULL },
	{ "wildcard", "*.example.test", NULL },
	{ "port", "example.test:8443", NULL },
	{ "wildcard and port", "*.example.test:1", NULL },
	{ "highest port", "a.test:65535", NULL },
	{ "upper case", "Example.TEST", NULL },
	{ "trailing dot", "example.test.", NULL },
	{ "trailing dot and port", "example.test.:443", NULL },
	{ "underscore", "_dmarc.a_b.test", NULL },
	{ "punycode", "xn--bcher-kva.test", NULL },
	{ "digits in a label", "1.2.a3.4b", NULL },
	{ "IPv4", "10.0.0.1", NULL },
	{ "IPv4 and port", "10.0.0.1:80", NULL },
	{ "IPv6", "[2001:db8::1]", NULL },
	{ "IPv6 and port", "[::1]:8080", NULL },
	{ "IPv6 in upper case", "[2001:DB8::1]", NULL },
	{ "empty", "", "empty" },
	{ "bare star", "*", "any_domain" },
	{ "bare star and port", "*:443", "any_domain" },
	{ "star and dot", "*.", "no name" },
	{ "inner star", "a.*.test", "first label" },
	{ "two stars", "*.*.test", "first label" },
	{ "star in a label", "a*.test", "first label" },
	{ "star at the end", "example.*", "first label" },
	{ "only a dot", ".", "empty label" },
	{ "leading dot", ".a.test", "empty label" },
	{ "two dots", "a..test", "empty label" },
	{ "two trailing dots", "a.test..", "empty label" },
	{ "leading hyphen", "-a.test", "'-'" },
	{ "trailing hyphen", "a-.test", "'-'" },
	{ "no port behind the colon", "a.test:", "65535" },
	{ "port zero", "a.test:0", "65535" },
	{ "port too large", "a.test:65536", "65535" },
	{ "port far too large", "a.test:4294967376", "65535" },
	{ "port with leading zero", "a.test:080", "65535" },
	{ "port in letters", "a.test:http", "number" },
	{ "negative port", "a.test:-1", "number" },
	{ "two ports", "a.test:80:443", "two ':'" },
	{ "only a port", ":443", "no name" },
	{ "space", "a b.test", "character" },
	{ "newline", "a.test\n", "character" },
	{ "userinfo", "u@a.test", "character" },
	{ "percent", "a%00.test", "character" },
	{ "path", "a.test/x", "path" },
	{ "full-width", "\xef\xbd\x85xample.test", "ASCII" },
	{ "ideographic full stop", "a\xe3\x80\x82test", "ASCII" },
	{ "decimal address", "2130706433", "not a valid one" },
	{ "hexadecimal address", "0x7f000001", "not a valid one" },
	{ "hexadecimal last label", "127.0.0.0x1", "not a valid one" },
	{ "empty hexadecimal", "a.0x", "not a valid one" },
	{ "octal address", "0177.0.0.1", "not a valid one" },
	{ "short address", "127.1", "not a valid one" },
	{ "number out of range", "1.2.3.256", "not a valid one" },
	{ "five numbers", "1.2.3.4.5", "not a valid one" },
	{ "name that ends in a number", "a.test.1", "not a valid one" },
	{ "wildcard of an address", "*.2.3.4", "address" },
	{ "IPv6 without brackets", "::1", "brackets" },
	{ "IPv6 not shortest", "[0:0:0:0:0:0:0:1]", "shortest" },
	{ "IPv6 zone", "[fe80::1%eth0]", "no IPv6" },
	{ "IPv4 in brackets", "[1.2.3.4]", "no IPv6" },
	{ "bracket open", "[::1", "without ']'" },
	{ "something behind the bracket", "[::1]x", "after" },
	{ "IPv6 port zero", "[::1]:0", "65535" },
	{ "any-sni", "a.test any-sni", NULL },
	{ "any-sni of a wildcard with a port", "*.a.test:8443 any-sni", NULL },
	{ "any-sni in upper case", "a.test Any-SNI", NULL },
	{ "any-sni of an address", "[::1]:443 any-sni", NULL },
	{ "any-sni alone", " any-sni", "character" },
	{ "any-sni behind two spaces", "a.test  any-sni", "character" },
	{ "any-sni behind a tab", "a.test\tany-sni", "character" },
	{ "any-sni twice", "a.test any-sni any-sni", "character" },
	{ "any-sni before the port", "a.test any-sni:443", "character" },
	{ "a space at the end", "a.test ", "character" },
	{ "another word", "a.test any-port", "character" },
	{ "any-sni of every host", "* any-sni", "any_domain" },
};
/* clang-format on */

static void
check_why(const char *why, const char *want)
{
	if (want == NULL) {
		if (why != NULL)
			fail_msg("refused: %s", why);
		return;
	}
	assert_non_null(why);
	if (strstr(why, want) == NULL)
		fail_msg("'%s' does not say '%s'", why, want);
}

static void
pattern_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct domain d;

	check_why(domain_parse(patterns[i].pattern, &d), patterns[i].want);
}

static void
pattern_lengths(void **state)
{
	struct domain d;
	char name[300];

	memset(name, 'a', sizeof(name));
	memcpy(name + 63, ".test", 6);
	assert_null(domain_parse(name, &d));
	memset(name, 'a', sizeof(name));
	memcpy(name + 64, ".test", 6);
	assert_non_null(domain_parse(name, &d));
	for (size_t len = 252; len <= 255; len++) {
		for (size_t i = 0; i < len; i++)
			name[i] = i % 50 == 49 ? '.' : 'a';
		name[len] = '\0';
		assert_int_equal(domain_parse(name, &d) == NULL, len <= 253);
		memcpy(name, "*.", 2);
		assert_int_equal(domain_parse(name, &d) == NULL, len <= 253);
	}
}

static const struct {
	const char *label, *pattern, *name;
	bool wildcard, any_sni;
	unsigned port;
	bool address;
} parts[] = {
	{ "parts: name", "a.test", "a.test", false, false, 0, false },
	{ "parts: all", "*.a.test.:8443 any-sni", "a.test", true, true, 8443, false },
	{ "parts: IPv4", "10.0.0.1:80", "10.0.0.1", false, false, 80, true },
	{ "parts: IPv6", "[::1]:80 any-sni", "[::1]", false, true, 80, true },
	{ "parts: digits that are no address", "1.2.a3", "1.2.a3", false, false, 0, false },
	{ "parts: one label", "localhost", "localhost", false, false, 0, false },
};

static void
parts_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct domain d;

	assert_null(domain_parse(parts[i].pattern, &d));
	assert_int_equal(d.len, strlen(parts[i].name));
	assert_memory_equal(d.name, parts[i].name, d.len);
	assert_int_equal(d.wildcard, parts[i].wildcard);
	assert_int_equal(d.any_sni, parts[i].any_sni);
	assert_int_equal(d.port, parts[i].port);
	assert_int_equal(domain_is_address(&d), parts[i].address);
}

static void
normalise(void **state)
{
	static const struct {
		const char *from, *to;
	} pairs[] = {
		{ "Example.TEST", "example.test" },
		{ "example.test.", "example.test" },
		{ "*.Example.Test.:8443", "*.example.test:8443" },
		{ "Example.Test. Any-SNI", "example.test any-sni" },
		{ "a.test.:80 any-SNI", "a.test:80 any-sni" },
		{ "[2001:DB8::A]:80", "[2001:db8::a]:80" },
		{ "10.0.0.1.", "10.0.0.1" },
		{ "a.test", "a.test" },
	};
	char buf[64];

	for (size_t i = 0; i < N_ELEMENTS(pairs); i++) {
		struct domain d;

		assert_null(domain_parse(pairs[i].from, &d));
		strcpy(buf, pairs[i].from);
		assert_int_equal(domain_is_normalised(buf), strcmp(buf, pairs[i].to) == 0);
		domain_normalise(buf);
		assert_string_equal(buf, pairs[i].to);
		assert_true(domain_is_normalised(buf));
		assert_null(domain_parse(buf, &d));
	}
}

/* ---- hosts ---- */

#define B(text) text, sizeof(text) - 1

/* want: the canonical text, or NULL with the reason in `why`. */
static const struct {
	const char *label, *bytes;
	size_t len;
	bool brackets;
	const char *want, *why;
	enum domain_kind kind;
} hosts[] = {
	/* clang-format off */
	{ "host: name", B("a.test"), true, "a.test", NULL, DOMAIN_NAME },
	{ "host: upper case", B("WWW.Example.TEST"), true, "www.example.test", NULL, DOMAIN_NAME },
	{ "host: trailing dot", B("a.test."), true, "a.test", NULL, DOMAIN_NAME },
	{ "host: one label", B("localhost"), true, "localhost", NULL, DOMAIN_NAME },
	{ "host: underscore", B("_a.b_c.test"), true, "_a.b_c.test", NULL, DOMAIN_NAME },
	{ "host: punycode", B("XN--bcher-kva.test"), true, "xn--bcher-kva.test", NULL, DOMAIN_NAME },
	{ "host: IPv4", B("192.0.2.1"), true, "192.0.2.1", NULL, DOMAIN_IPV4 },
	{ "host: IPv4 with a trailing dot", B("127.0.0.1."), true, "127.0.0.1", NULL, DOMAIN_IPV4 },
	{ "host: IPv6", B("[::1]"), true, "[::1]", NULL, DOMAIN_IPV6 },
	{ "host: IPv6 written in full", B("[2001:0DB8:0:0:0:0:0:000A]"), true, "[2001:db8::a]", NULL, DOMAIN_IPV6 },
	{ "host: IPv6 mapped", B("[::ffff:7f00:1]"), true, "[::ffff:127.0.0.1]", NULL, DOMAIN_IPV6 },
	{ "host: IPv6 mapped, dotted", B("[::FFFF:127.0.0.1]"), true, "[::ffff:127.0.0.1]", NULL, DOMAIN_IPV6 },
	{ "host: IPv6 bare, where there are no brackets", B("2001:db8::1"), false, "[2001:db8::1]", NULL, DOMAIN_IPV6 },
	{ "host: IPv6 in brackets all the same", B("[2001:db8::1]"), false, "[2001:db8::1]", NULL, DOMAIN_IPV6 },
	{ "host: IPv6 bare, where brackets have to be", B("::1"), true, NULL, "character", 0 },
	{ "host: empty", B(""), true, NULL, "empty", 0 },
	{ "host: only a dot", B("."), true, NULL, "empty label", 0 },
	{ "host: leading dot", B(".a.test"), true, NULL, "empty label", 0 },
	{ "host: two dots", B("a..test"), true, NULL, "empty label", 0 },
	{ "host: two trailing dots", B("a.test.."), true, NULL, "empty label", 0 },
	{ "host: NUL", B("allowed.test\0.evil.test"), true, NULL, "character", 0 },
	{ "host: NUL at the end", B("allowed.test\0"), true, NULL, "character", 0 },
	{ "host: NUL at the begin", B("\0allowed.test"), true, NULL, "character", 0 },
	{ "host: NUL in brackets", B("[::1\0]"), true, NULL, "no IPv6", 0 },
	{ "host: NUL in a bare address", B("::1\0"), false, NULL, "no IPv6", 0 },
	{ "host: CR LF", B("a.test\r\nHost: evil.test"), true, NULL, "character", 0 },
	{ "host: CR", B("a.test\r"), true, NULL, "character", 0 },
	{ "host: LF", B("a.test\n"), true, NULL, "character", 0 },
	{ "host: tab", B("a.test\tx"), true, NULL, "character", 0 },
	{ "host: space at the end", B("a.test "), true, NULL, "character", 0 },
	{ "host: space at the begin", B(" a.test"), true, NULL, "character", 0 },
	{ "host: vertical tab", B("a\v.test"), true, NULL, "character", 0 },
	{ "host: delete", B("a\x7f.test"), true, NULL, "character", 0 },
	{ "host: userinfo", B("allowed.test@evil.test"), true, NULL, "character", 0 },
	{ "host: fragment", B("evil.test#allowed.test"), true, NULL, "character", 0 },
	{ "host: query", B("evil.test?allowed.test"), true, NULL, "character", 0 },
	{ "host: backslash", B("evil.test\\allowed.test"), true, NULL, "character", 0 },
	{ "host: slash", B("evil.test/allowed.test"), true, NULL, "path", 0 },
	{ "host: percent", B("evil.test%00.allowed.test"), true, NULL, "character", 0 },
	{ "host: comma", B("a.test,b.test"), true, NULL, "character", 0 },
	{ "host: semicolon", B("a.test;b.test"), true, NULL, "character", 0 },
	{ "host: with a port", B("a.test:80"), true, NULL, "character", 0 },
	{ "host: with a port, where there are no brackets", B("a.test:80"), false, NULL, "no IPv6", 0 },
	{ "host: star", B("*.test"), true, NULL, "'*'", 0 },
	{ "host: full-width letter", B("\xef\xbd\x85xample.test"), true, NULL, "ASCII", 0 },
	{ "host: ideographic full stop", B("127\xe3\x80\x82" "0.0.1"), true, NULL, "ASCII", 0 },
	{ "host: full-width full stop", B("allowed\xef\xbc\x8etest"), true, NULL, "ASCII", 0 },
	{ "host: zero width space", B("allowed\xe2\x80\x8b.test"), true, NULL, "ASCII", 0 },
	{ "host: soft hyphen", B("al\xc2\xadlowed.test"), true, NULL, "ASCII", 0 },
	{ "host: Latin-1", B("b\xfc" "cher.test"), true, NULL, "ASCII", 0 },
	{ "host: hyphen first", B("-a.test"), true, NULL, "'-'", 0 },
	{ "host: hyphen last", B("a-.test"), true, NULL, "'-'", 0 },
	{ "host: decimal address", B("2130706433"), true, NULL, "not a valid one", 0 },
	{ "host: hexadecimal address", B("0x7f000001"), true, NULL, "not a valid one", 0 },
	{ "host: hexadecimal and short", B("0x7f.1"), true, NULL, "not a valid one", 0 },
	{ "host: hexadecimal parts", B("0x7f.0x0.0x0.0x1"), true, NULL, "not a valid one", 0 },
	{ "host: octal address", B("0177.0.0.1"), true, NULL, "not a valid one", 0 },
	{ "host: octal last", B("127.0.0.01"), true, NULL, "not a valid one", 0 },
	{ "host: short address", B("127.1"), true, NULL, "not a valid one", 0 },
	{ "host: three parts", B("127.0.1"), true, NULL, "not a valid one", 0 },
	{ "host: zero", B("0"), true, NULL, "not a valid one", 0 },
	{ "host: part out of range", B("256.0.0.1"), true, NULL, "not a valid one", 0 },
	{ "host: five parts", B("1.2.3.4.5"), true, NULL, "not a valid one", 0 },
	{ "host: name that ends in a number", B("a.1"), true, NULL, "not a valid one", 0 },
	{ "host: short with a trailing dot", B("127.1."), true, NULL, "not a valid one", 0 },
	{ "host: zone", B("[fe80::1%eth0]"), true, NULL, "no IPv6", 0 },
	{ "host: zone, escaped", B("[fe80::1%25eth0]"), true, NULL, "no IPv6", 0 },
	{ "host: bare zone", B("fe80::1%eth0"), false, NULL, "no IPv6", 0 },
	{ "host: IPv4 in brackets", B("[127.0.0.1]"), true, NULL, "no IPv6", 0 },
	{ "host: name in brackets", B("[a.test]"), true, NULL, "no IPv6", 0 },
	{ "host: empty brackets", B("[]"), true, NULL, "no IPv6", 0 },
	{ "host: bracket open", B("[::1"), true, NULL, "without ']'", 0 },
	{ "host: lone bracket", B("["), true, NULL, "without ']'", 0 },
	{ "host: bracket closed only", B("::1]"), true, NULL, "character", 0 },
	{ "host: two brackets", B("[[::1]]"), true, NULL, "no IPv6", 0 },
	{ "host: IPv6 with octal", B("[::ffff:0127.0.0.1]"), true, NULL, "no IPv6", 0 },
	{ "host: IPv6 with a long group", B("[::00001]"), true, NULL, "no IPv6", 0 },
	{ "host: IPv6 with two gaps", B("[1::2::3]"), true, NULL, "no IPv6", 0 },
	/* clang-format on */
};

static void
host_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char ret[DOMAIN_HOST_MAX + 1] = "untouched", again[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind = DOMAIN_NAME, same;

	check_why(domain_host_parse(hosts[i].bytes, hosts[i].len, hosts[i].brackets, ret, &kind),
	    hosts[i].why);
	if (hosts[i].want == NULL) {
		assert_string_equal(ret, "untouched");
		return;
	}
	assert_string_equal(ret, hosts[i].want);
	assert_int_equal(kind, hosts[i].kind);
	/* A canonical text stays as it is. */
	assert_null(domain_host_parse(ret, strlen(ret), true, again, &same));
	assert_string_equal(again, ret);
	assert_int_equal(same, kind);
}

/* Each byte that a name cannot contain, in the middle of one. */
static void
no_other_byte(void **state)
{
	size_t taken = 0;

	for (unsigned c = 0; c < 256; c++) {
		char text[] = "ab.test", ret[DOMAIN_HOST_MAX + 1];
		enum domain_kind kind;

		text[1] = (char)c;
		if (domain_host_parse(text, 7, true, ret, &kind) != NULL)
			continue;
		assert_non_null(
		    memchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
			(int)c, 63));
		taken++;
	}
	assert_int_equal(taken, 63); /* the hyphen would end a label, the dot make an empty one */
}

static void
host_lengths(void **state)
{
	char name[300], ret[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;

	for (size_t len = 252; len <= 256; len++) {
		for (size_t i = 0; i < len; i++)
			name[i] = i % 50 == 49 ? '.' : 'a';
		assert_int_equal(domain_host_parse(name, len, true, ret, &kind) == NULL,
		    len <= 253);
		name[len] = '.';
		assert_int_equal(domain_host_parse(name, len + 1, true, ret, &kind) == NULL,
		    len <= 253);
	}
}

/* ---- authorities ---- */

static const struct {
	const char *label, *bytes;
	size_t len;
	unsigned default_port;
	const char *want, *why;
	unsigned port;
} authorities[] = {
	/* clang-format off */
	{ "authority: name and port", B("A.test:443"), 0, "a.test", NULL, 443 },
	{ "authority: trailing dot", B("a.test.:443"), 0, "a.test", NULL, 443 },
	{ "authority: default port", B("a.test"), 80, "a.test", NULL, 80 },
	{ "authority: port beats the default", B("a.test:8080"), 80, "a.test", NULL, 8080 },
	{ "authority: IPv4", B("10.0.0.1:1"), 0, "10.0.0.1", NULL, 1 },
	{ "authority: IPv6", B("[2001:DB8::1]:65535"), 0, "[2001:db8::1]", NULL, 65535 },
	{ "authority: IPv6, default port", B("[::1]"), 80, "[::1]", NULL, 80 },
	{ "authority: no port", B("a.test"), 0, NULL, "no port", 0 },
	{ "authority: empty", B(""), 80, NULL, "empty", 0 },
	{ "authority: empty port", B("a.test:"), 80, NULL, "65535", 0 },
	{ "authority: only a port", B(":443"), 0, NULL, "empty", 0 },
	{ "authority: port 0", B("a.test:0"), 80, NULL, "65535", 0 },
	{ "authority: port too large", B("a.test:65536"), 80, NULL, "65535", 0 },
	{ "authority: port that wraps", B("a.test:4294967739"), 80, NULL, "65535", 0 },
	{ "authority: leading zero", B("a.test:0443"), 80, NULL, "65535", 0 },
	{ "authority: plus", B("a.test:+443"), 80, NULL, "number", 0 },
	{ "authority: space before the port", B("a.test: 443"), 80, NULL, "number", 0 },
	{ "authority: space behind the port", B("a.test:443 "), 80, NULL, "number", 0 },
	{ "authority: NUL behind the port", B("a.test:443\0"), 80, NULL, "number", 0 },
	{ "authority: two ports", B("allowed.test:443:80"), 0, NULL, "number", 0 },
	{ "authority: a port in the password", B("allowed.test:443@evil.test:443"), 0, NULL, "number", 0 },
	{ "authority: userinfo", B("u:1@evil.test:443"), 0, NULL, "number", 0 },
	{ "authority: userinfo without a password", B("allowed.test@evil.test:443"), 0, NULL, "character", 0 },
	{ "authority: path behind", B("a.test:443/"), 0, NULL, "number", 0 },
	{ "authority: path before", B("a.test/:443"), 0, NULL, "path", 0 },
	{ "authority: scheme", B("http://a.test:80"), 0, NULL, "number", 0 },
	{ "authority: IPv6 without brackets", B("::1:443"), 0, NULL, "number", 0 },
	{ "authority: IPv6 without brackets or gap", B("fe80::1"), 80, NULL, "number", 0 },
	{ "authority: bracket open", B("[::1:443"), 0, NULL, "without ']'", 0 },
	{ "authority: something behind the bracket", B("[::1]x:443"), 0, NULL, "after", 0 },
	{ "authority: a name behind the bracket", B("[::1].allowed.test:443"), 0, NULL, "after", 0 },
	{ "authority: decimal address", B("2130706433:443"), 0, NULL, "not a valid one", 0 },
	{ "authority: CR LF", B("a.test:443\r\nX: y"), 0, NULL, "number", 0 },
	/* clang-format on */
};

static void
authority_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char ret[DOMAIN_HOST_MAX + 1] = "untouched";
	enum domain_kind kind;
	unsigned port = 77;

	check_why(domain_authority_parse(authorities[i].bytes, authorities[i].len,
		      authorities[i].default_port, ret, &kind, &port),
	    authorities[i].why);
	assert_string_equal(ret, authorities[i].want != NULL ? authorities[i].want : "untouched");
	assert_int_equal(port, authorities[i].want != NULL ? authorities[i].port : 77);
}

/* ---- what matches what ---- */

static const struct {
	const char *label, *a, *b, *both; /* NULL: nothing in common */
	bool covers;                      /* a covers b */
} pairs[] = {
	{ "pair: the same", "a.test", "a.test", "a.test", true },
	{ "pair: another", "a.test", "b.test", NULL, false },
	{ "pair: wildcard over a name", "*.a.test", "x.a.test", "x.a.test", true },
	{ "pair: a name under a wildcard", "x.a.test", "*.a.test", "x.a.test", false },
	{ "pair: wildcard and its name", "*.a.test", "a.test", NULL, false },
	{ "pair: wildcard over two labels", "*.test", "x.a.test", NULL, false },
	{ "pair: wildcards", "*.a.test", "*.a.test", "*.a.test", true },
	{ "pair: wildcard below a wildcard", "*.test", "*.a.test", NULL, false },
	{ "pair: port of the default two", "a.test", "a.test:443", "a.test:443", true },
	{ "pair: the default two and one", "a.test:443", "a.test", "a.test:443", false },
	{ "pair: another port", "a.test", "a.test:22", NULL, false },
	{ "pair: any-sni of one", "a.test any-sni", "a.test", "a.test", true },
	{ "pair: any-sni of the other", "a.test", "a.test any-sni", "a.test", false },
	{ "pair: any-sni of both", "*.a.test any-sni", "x.a.test:80 any-sni", "x.a.test:80 any-sni",
	    true },
};

static void
pair_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char both[DOMAIN_PATTERN_MAX + 1];
	struct domain a, b;

	assert_null(domain_parse(pairs[i].a, &a));
	assert_null(domain_parse(pairs[i].b, &b));
	assert_int_equal(domain_covers(&a, &b), pairs[i].covers);
	for (int turn = 0; turn < 2; turn++) {
		bool any =
		    turn == 0 ? domain_intersect(&a, &b, both) : domain_intersect(&b, &a, both);

		assert_int_equal(any, pairs[i].both != NULL);
		if (any)
			assert_string_equal(both, pairs[i].both);
	}
}

static void
the_longest_pattern_fits(void **state)
{
	char pattern[DOMAIN_PATTERN_MAX + 1], both[DOMAIN_PATTERN_MAX + 1];
	struct domain d;

	memcpy(pattern, "*.", 2);
	for (size_t i = 2; i < DOMAIN_NAME_MAX; i++)
		pattern[i] = i % 50 == 49 ? '.' : 'a';
	strcpy(pattern + DOMAIN_NAME_MAX, ":65535 any-sni");
	assert_null(domain_parse(pattern, &d));
	assert_true(domain_intersect(&d, &d, both));
	assert_string_equal(both, pattern);
}

/* ---- many patterns ---- */

#define PICK(table) (table)[draw(N_ELEMENTS(table))]

static void
draw_pattern(char ret[64])
{
	static const char *const first[] = { "a.", "b.", "ab.", "*.", "*.", "", "" };
	static const char *const rest[] = { "test", "a.test", "b.test", "x.a.test", "a", "10.0.0.1",
		"[::1]", "aa", "t.est" };
	static const char *const ports[] = { "", "", "", ":80", ":443", ":22", ":8080" };
	static const char *const suffixes[] = { "", "", "", " any-sni" };
	struct domain d;

	do
		snprintf(ret, 64, "%s%s%s%s", PICK(first), PICK(rest), PICK(ports), PICK(suffixes));
	while (domain_parse(ret, &d) != NULL);
}

/* Compared with the plain way: the host is matched with each pattern. */
static void
set_finds_what_matches(void **state)
{
	static const char *const hosts_of_set[] = { "test", "a.test", "b.test", "a.a.test",
		"b.a.test", "c.a.test", "x.a.test", "a.x.a.test", "q.x.a.test", "a", "b.a", "ab.a",
		"10.0.0.1", "[::1]", "aa", "a.aa", "a.b.c.d", "t.est", "zt.est", "b.t.est",
		"nowhere" };
	static const unsigned ports[] = { 80, 443, 22, 8080, 1, 0, 65536 };
	size_t found = 0, missed = 0, any = 0;

	for (size_t round = 0; round < 400; round++) {
		char texts[64][64], *rules[64];
		size_t n = draw(64);
		struct domain_set *set;

		for (size_t i = 0; i < n; i++) {
			draw_pattern(texts[i]);
			rules[i] = texts[i];
		}
		set = domain_set_new(rules, n, NULL);
		assert_non_null(set);
		for (size_t k = 0; k < 200; k++) {
			const char *host = PICK(hosts_of_set), *got;
			unsigned port = PICK(ports);
			bool any_port = draw(2) == 0, want = false, want_any = false,
			     got_any = true;
			struct domain d;

			for (size_t i = 0; i < n; i++) {
				assert_null(domain_parse(rules[i], &d));
				if (!domain_matches(&d, host, strlen(host), port, any_port))
					continue;
				want = true;
				want_any = want_any || d.any_sni;
			}
			got = domain_set_find(set, host, port, any_port, &got_any);
			if ((got != NULL) != want || got_any != want_any)
				fail_msg("%s:%u in round %zu: %s", host, port, round,
				    got != NULL ? got : "nothing");
			if (got != NULL) {
				assert_null(domain_parse(got, &d));
				assert_true(domain_matches(&d, host, strlen(host), port, any_port));
				assert_int_equal(d.any_sni, want_any);
			}
			*(want ? &found : &missed) += 1;
			any += want_any;
		}
		domain_set_free(set);
	}
	assert_true(found > 4000 && missed > 4000 && any > 1000);
}

static void
set_of_nothing_finds_nothing(void **state)
{
	struct domain_set *set = domain_set_new(NULL, 0, NULL);

	assert_non_null(set);
	assert_null(domain_set_find(set, "a.test", 443, true, NULL));
	assert_null(domain_set_find(set, "", 443, true, NULL));
	domain_set_free(set);
	domain_set_free(NULL);
}

static void
set_refuses_what_is_no_pattern(void **state)
{
	char good[] = "a.test", bad[] = "a..test";
	char *rules[] = { good, bad };
	struct koda_error err = { 0 };

	assert_null(domain_set_new(rules, 2, &err));
	assert_int_equal(err.code, KODA_INVALID);
	assert_non_null(strstr(err.message, "empty label"));
}

/* Thousands of patterns, so that the set builds its table, and each is found again. */
static void
set_of_many(void **state)
{
	enum { MANY = 4096 };
	static char texts[MANY][32];
	static char *rules[MANY];
	struct domain_set *set;
	char host[40];

	for (size_t i = 0; i < MANY; i++) {
		snprintf(texts[i], sizeof(texts[i]), i % 2 == 0 ? "h%zu.test" : "*.h%zu.test", i);
		rules[i] = texts[i];
	}
	set = domain_set_new(rules, MANY, NULL);
	assert_non_null(set);
	for (size_t i = 0; i < MANY; i++) {
		snprintf(host, sizeof(host), i % 2 == 0 ? "h%zu.test" : "x.h%zu.test", i);
		assert_ptr_equal(domain_set_find(set, host, 443, false, NULL), rules[i]);
		assert_null(domain_set_find(set, host, 22, false, NULL));
		snprintf(host, sizeof(host), i % 2 == 0 ? "x.h%zu.test" : "h%zu.test", i);
		assert_null(domain_set_find(set, host, 443, false, NULL));
	}
	domain_set_free(set);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(pattern_lengths),
		cmocka_unit_test(normalise),
		cmocka_unit_test(no_other_byte),
		cmocka_unit_test(host_lengths),
		cmocka_unit_test(the_longest_pattern_fits),
		cmocka_unit_test(set_finds_what_matches),
		cmocka_unit_test(set_of_nothing_finds_nothing),
		cmocka_unit_test(set_refuses_what_is_no_pattern),
		cmocka_unit_test(set_of_many),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(patterns) + N_ELEMENTS(parts) +
	    N_ELEMENTS(hosts) + N_ELEMENTS(authorities) + N_ELEMENTS(pairs)];
	size_t n = 0;

	OTHERS(single);
	CASES(patterns, pattern_case);
	CASES(parts, parts_case);
	CASES(hosts, host_case);
	CASES(authorities, authority_case);
	CASES(pairs, pair_case);
	return cmocka_run_group_tests_name("domain", tests, NULL, NULL);
}
