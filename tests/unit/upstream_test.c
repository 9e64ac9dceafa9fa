/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/rules/upstream.c: the user's proxies as the environment names them, and which hosts go
 * around them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/rules/upstream.h"

/* ---- the proxy ---- */

static void
show(const struct upstream_proxy *p, char *buf, size_t size)
{
	static const char *const kinds[] = { "direct", "http", "socks5" };

	if (p->kind == UPSTREAM_DIRECT)
		snprintf(buf, size, "direct");
	else if (p->has_credentials)
		snprintf(buf, size, "%s %s %u <%s> <%s>", kinds[p->kind], p->host, p->port, p->user,
		    p->password);
	else
		snprintf(buf, size, "%s %s %u", kinds[p->kind], p->host, p->port);
}

static const struct {
	const char *label, *value, *want; /* want: the proxy, or "!" and the error */
} values[] = {
	/* clang-format off */
	{ "http", "http://proxy.test:3128", "http proxy.test 3128" },
	{ "http, path /", "http://proxy.test:3128/", "http proxy.test 3128" },
	{ "http, no port", "http://proxy.test", "http proxy.test 80" },
	{ "http, no port, path /", "http://proxy.test/", "http proxy.test 80" },
	{ "no scheme", "proxy.test:3128", "http proxy.test 3128" },
	{ "no scheme, no port", "proxy.test", "http proxy.test 80" },
	{ "no scheme, credentials", "u:p@proxy.test:3128", "http proxy.test 3128 <u> <p>" },
	{ "capitals", "HTTP://Proxy.TEST.:3128", "http proxy.test 3128" },
	{ "IPv4", "http://192.0.2.1:3128", "http 192.0.2.1 3128" },
	{ "IPv6", "http://[2001:DB8::1]:3128", "http [2001:db8::1] 3128" },
	{ "IPv6, no port", "http://[2001:db8::1]", "http [2001:db8::1] 80" },
	{ "loopback", "http://127.0.0.1:8080", "http 127.0.0.1 8080" },
	{ "socks5", "socks5://proxy.test:1081", "socks5 proxy.test 1081" },
	{ "socks5, no port", "socks5://proxy.test", "socks5 proxy.test 1080" },
	{ "socks5h", "socks5h://proxy.test", "socks5 proxy.test 1080" },
	{ "user alone", "http://user@proxy.test", "http proxy.test 80 <user> <>" },
	{ "user, empty password", "http://user:@proxy.test", "http proxy.test 80 <user> <>" },
	{ "a token as password", "http://:token@proxy.test", "http proxy.test 80 <> <token>" },
	{ "credentials, percent", "http://us%40er:p%2f%3A%25@proxy.test", "http proxy.test 80 <us@er> <p/:%>" },
	{ "credentials, ':' in the password", "http://user:a:b@proxy.test", "http proxy.test 80 <user> <a:b>" },
	{ "credentials, '@' in the password", "http://user:a@b@proxy.test", "http proxy.test 80 <user> <a@b>" },
	{ "credentials, UTF-8", "http://user:%c3%bc\xc3\xbc@proxy.test", "http proxy.test 80 <user> <\xc3\xbc\xc3\xbc>" },
	{ "credentials, SOCKS", "socks5h://user:secret@proxy.test:1081", "socks5 proxy.test 1081 <user> <secret>" },
	{ "credentials, SOCKS, ':' in the user", "socks5h://us%3aer:secret@proxy.test", "socks5 proxy.test 1080 <us:er> <secret>" },

	{ "https", "https://proxy.test:443", "!TLS to the proxy" },
	{ "socks", "socks://proxy.test:1080", "!which version" },
	{ "socks4", "socks4://proxy.test:1080", "!SOCKS 4" },
	{ "socks4a", "SOCKS4A://proxy.test:1080", "!SOCKS 4" },
	{ "ftp", "ftp://proxy.test", "!is not http" },
	{ "no scheme before ://", "://proxy.test", "!is not http" },
	{ "a part of a scheme", "htt://proxy.test", "!is not http" },
	{ "credentials for a scheme", "user:secret://proxy.test", "!is not http" },
	{ "one slash", "http:/proxy.test", "!" },
	{ "no host", "http://", "!no host" },
	{ "no host, path", "http:///", "!no host" },
	{ "no host, credentials", "http://user:secret@", "!no host" },
	{ "no host, port", "http://:3128", "!" },
	{ "a path", "http://proxy.test/proxy.pac", "!path" },
	{ "two slashes", "http://proxy.test//", "!path" },
	{ "a query", "http://proxy.test?secret", "!path" },
	{ "a fragment", "http://proxy.test#secret", "!path" },
	{ "a path, no scheme", "proxy.test:3128/x", "!path" },
	{ "'/' in a password", "http://user:sec/ret@proxy.test", "!path" },
	{ "port 0", "http://proxy.test:0", "!port" },
	{ "port 65536", "http://proxy.test:65536", "!port" },
	{ "an empty port", "http://proxy.test:", "!port" },
	{ "a port with letters", "http://proxy.test:31x8", "!port" },
	{ "two ports", "http://proxy.test:80:81", "!port" },
	{ "a backslash", "http://proxy.test\\x", "!character" },
	{ "IPv6 without brackets", "http://2001:db8::1", "!" },
	{ "IPv6 with a zone", "http://[fe80::1%25eth0]:80", "!" },
	{ "a decimal address", "http://2130706433:80", "!" },
	{ "a space before", " http://proxy.test", "!white space" },
	{ "a space behind", "http://proxy.test ", "!white space" },
	{ "a space alone", " ", "!white space" },
	{ "a line's end", "http://proxy.test\n", "!white space" },
	{ "a tab in credentials", "http://user:sec\tret@proxy.test", "!white space" },
	{ "a control in a host", "http://pro\x01xy.test", "!white space" },
	{ "not ASCII in a host", "http://pr\xc3\xb6xy.test", "!ASCII" },
	{ "percent in a host", "http://proxy%2etest", "!character" },
	{ "half a percent", "http://user:secret%4@proxy.test", "!two hex digits" },
	{ "percent alone", "http://user:secret%@proxy.test", "!two hex digits" },
	{ "percent and letters", "http://user:secret%zz@proxy.test", "!two hex digits" },
	{ "NUL in credentials", "http://user:secret%00@proxy.test", "!control character" },
	{ "a line's end in credentials", "http://user:secret%0d%0aX@proxy.test", "!control character" },
	{ "'@' but no user", "http://@proxy.test", "!no user" },
	{ "':@' and no user", "http://:@proxy.test", "!no user" },
	{ "':' in Basic's user", "http://us%3aer:secret@proxy.test", "!Basic" },
	{ "SOCKS, a password and no user", "socks5://:secret@proxy.test", "!no user" },
	/* clang-format on */
};

static void
value_case(void **state)
{
	size_t i = (uintptr_t)*state;
	const char *want = values[i].want;
	struct {
		const char *name;
		struct upstream_variables v;
	} ways[] = {
		{ "HTTPS_PROXY", { .https_proxy = values[i].value } },
		{ "HTTP_PROXY", { .http_proxy = values[i].value } },
		{ "ALL_PROXY", { .all_proxy = values[i].value } },
	};

	for (size_t k = 0; k < N_ELEMENTS(ways); k++) {
		struct upstream u = { .n_except = 77 };
		struct koda_error err = { 0 };
		char https[1400], http[1400];
		int r = upstream_parse(&ways[k].v, &u, &err);

		if (want[0] == '!') {
			assert_int_equal(r, -1);
			assert_int_equal(err.code, KODA_INVALID);
			if (strstr(err.message, want + 1) == NULL)
				fail_msg("refused as: %s", err.message);
			assert_non_null(strstr(err.message, ways[k].name));
			/* The message contains nothing of the value: no credentials, wherever
			 * they are. */
			assert_null(strstr(err.message, "sec"));
			assert_int_equal(u.n_except, 77); /* untouched */
			continue;
		}
		if (r != 0)
			fail_msg("%s", err.message);
		show(&u.https, https, sizeof(https));
		show(&u.http, http, sizeof(http));
		assert_string_equal(https, k == 1 ? "direct" : want);
		assert_string_equal(http, k == 0 ? "direct" : want);
		upstream_done(&u);
	}
}

static void
long_values(void **state)
{
	static const struct {
		const char *before, *behind;
		char fill;
		size_t n;
		bool good;
	} cases[] = {
		{ "http://u:", "@a.test", 'p', UPSTREAM_CREDENTIALS_MAX, true },
		{ "http://u:", "@a.test", 'p', UPSTREAM_CREDENTIALS_MAX + 1, false },
		{ "http://", "@a.test", 'u', UPSTREAM_CREDENTIALS_MAX, true },
		{ "http://", "@a.test", 'u', UPSTREAM_CREDENTIALS_MAX + 1, false },
		{ "socks5://u:", "@a.test", 'p', 255, true },
		{ "socks5://u:", "@a.test", 'p', 256, false },
		{ "socks5://", "@a.test", 'u', 256, false },
		{ "http://", "", 'h', 64, false },
		{ "http://", "", 'h', UPSTREAM_VALUE_MAX, false },
		{ "http://", "", 'h', 2000000, false },
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		cleanup_free char *value = malloc(cases[i].n + 64);
		struct upstream_variables v = { .https_proxy = value };
		struct upstream u;
		struct koda_error err;
		size_t n = (size_t)sprintf(value, "%s", cases[i].before);

		memset(value + n, cases[i].fill, cases[i].n);
		strcpy(value + n + cases[i].n, cases[i].behind);
		assert_int_equal(upstream_parse(&v, &u, &err), cases[i].good ? 0 : -1);
		if (cases[i].good)
			upstream_done(&u);
	}
}

static const struct {
	const char *label;
	struct upstream_variables v;
	const char *https, *http; /* NULL: an error that names the variable in `why` */
	const char *why;
} variables[] = {
	/* clang-format off */
	{ "nothing is set", { NULL, NULL, NULL, NULL }, "direct", "direct", "" },
	{ "empty is not set", { "", "", "", "" }, "direct", "direct", "" },
	{ "each has its own", { "http://a.test:1", "http://b.test:2", "socks5://c.test:3", NULL }, "http a.test 1", "http b.test 2", "" },
	{ "ALL for both", { NULL, NULL, "socks5://c.test:3", NULL }, "socks5 c.test 3", "socks5 c.test 3", "" },
	{ "ALL for the other", { NULL, "http://b.test:2", "socks5://c.test:3", NULL }, "socks5 c.test 3", "http b.test 2", "" },
	{ "empty, and ALL", { "", "http://b.test:2", "socks5://c.test:3", NULL }, "socks5 c.test 3", "http b.test 2", "" },
	{ "http's is not https's", { NULL, "http://b.test:2", NULL, NULL }, "direct", "http b.test 2", "" },
	{ "ALL that nobody asks may be anything", { "http://a.test:1", "http://b.test:2", "socks://c.test:3", NULL }, "http a.test 1", "http b.test 2", "" },
	{ "ALL that somebody asks", { "http://a.test:1", NULL, "socks://c.test:3", NULL }, NULL, NULL, "ALL_PROXY" },
	{ "one is wrong", { "http://a.test:1", "ftp://b.test:2", NULL, NULL }, NULL, NULL, "HTTP_PROXY" },
	/* clang-format on */
};

static void
variables_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct upstream u;
	struct koda_error err = { 0 };
	char text[1400];
	int r = upstream_parse(&variables[i].v, &u, &err);

	if (variables[i].https == NULL) {
		assert_int_equal(r, -1);
		assert_memory_equal(err.message, variables[i].why, strlen(variables[i].why));
		return;
	}
	assert_int_equal(r, 0);
	show(&u.https, text, sizeof(text));
	assert_string_equal(text, variables[i].https);
	show(&u.http, text, sizeof(text));
	assert_string_equal(text, variables[i].http);
	upstream_done(&u);
}

/* ---- NO_PROXY ---- */

static const struct {
	const char *label, *no_proxy, *host;
	unsigned port;
	const char *resolved; /* a literal, or NULL */
	bool direct;
} exceptions[] = {
	/* clang-format off */
	{ "itself", "a.test", "a.test", 443, NULL, true },
	{ "below it", "a.test", "b.a.test", 443, NULL, true },
	{ "far below it", "a.test", "c.b.a.test", 443, NULL, true },
	{ "not what ends so", "a.test", "ba.test", 443, NULL, false },
	{ "not above it", "b.a.test", "a.test", 443, NULL, false },
	{ "not what begins so", "a.test", "a.test.b.test", 443, NULL, false },
	{ "another", "a.test", "b.test", 443, NULL, false },
	{ "a leading dot, itself", ".a.test", "a.test", 443, NULL, true },
	{ "a leading dot, below", ".a.test", "b.a.test", 443, NULL, true },
	{ "a star, itself", "*.a.test", "a.test", 443, NULL, true },
	{ "a star, below", "*.a.test", "c.b.a.test", 443, NULL, true },
	{ "capitals", "A.TEST", "a.test", 443, NULL, true },
	{ "a trailing dot", "a.test.", "a.test", 443, NULL, true },
	{ "the second", "x.test,a.test", "a.test", 443, NULL, true },
	{ "spaces", "  x.test   a.test ", "a.test", 443, NULL, true },
	{ "commas and spaces", ", x.test ,, a.test\t,", "a.test", 443, NULL, true },
	{ "its port", "a.test:8443", "a.test", 8443, NULL, true },
	{ "not another port", "a.test:8443", "a.test", 443, NULL, false },
	{ "its port, below", ".a.test:8443", "b.a.test", 8443, NULL, true },
	{ "port 0 names nothing", "a.test:0", "a.test", 443, NULL, false },
	{ "a port that is none", "a.test:http", "a.test", 443, NULL, false },
	{ "an empty port", "a.test:", "a.test", 443, NULL, false },
	{ "everything", "*", "a.test", 443, NULL, true },
	{ "everything, among others", "b.test, *", "a.test", 443, NULL, true },
	{ "everything, an address", "*", "192.0.2.1", 443, NULL, true },
	{ "a star alone in a name", "*a.test", "a.test", 443, NULL, false },
	{ "one label", "localhost", "localhost", 80, NULL, true },
	{ "IPv4", "192.0.2.1", "192.0.2.1", 443, NULL, true },
	{ "IPv4, another", "192.0.2.1", "192.0.2.10", 443, NULL, false },
	{ "IPv4 and port", "192.0.2.1:8443", "192.0.2.1", 8443, NULL, true },
	{ "IPv4, not another port", "192.0.2.1:8443", "192.0.2.1", 443, NULL, false },
	{ "IPv4, of a name", "192.0.2.1", "a.test", 443, "192.0.2.1", true },
	{ "IPv4, of a name, another", "192.0.2.1", "a.test", 443, "192.0.2.2", false },
	{ "not the end of an address", "2.1", "192.0.2.1", 443, NULL, false },
	{ "CIDR", "192.0.2.0/24", "192.0.2.200", 443, NULL, true },
	{ "CIDR, outside", "192.0.2.0/24", "192.0.3.1", 443, NULL, false },
	{ "CIDR, of a name", "10.0.0.0/8", "a.test", 443, "10.1.2.3", true },
	{ "CIDR, of a name that is not known", "10.0.0.0/8", "a.test", 443, NULL, false },
	{ "CIDR /0", "0.0.0.0/0", "192.0.2.1", 443, NULL, true },
	{ "CIDR /33", "192.0.2.0/33", "192.0.2.0", 443, NULL, false },
	{ "nothing is below an address", ".192.0.2.1,*.192.0.2.1", "192.0.2.1", 443, NULL, false },
	{ "IPv6", "2001:db8::1", "[2001:db8::1]", 443, NULL, true },
	{ "IPv6, another spelling", "2001:DB8:0:0::1", "[2001:db8::1]", 443, NULL, true },
	{ "IPv6 in brackets", "[2001:db8::1]", "[2001:db8::1]", 443, NULL, true },
	{ "IPv6 and port", "[2001:db8::1]:8443", "[2001:db8::1]", 8443, NULL, true },
	{ "IPv6, not another port", "[2001:db8::1]:8443", "[2001:db8::1]", 443, NULL, false },
	{ "IPv6 and something else", "[2001:db8::1]x", "[2001:db8::1]", 443, NULL, false },
	{ "IPv6, open brackets", "[2001:db8::1", "[2001:db8::1]", 443, NULL, false },
	{ "IPv4 in brackets", "[192.0.2.1]", "192.0.2.1", 443, NULL, false },
	{ "IPv6 CIDR", "2001:db8::/32", "[2001:db8:1::1]", 443, NULL, true },
	{ "IPv6 CIDR, outside", "2001:db8::/32", "[2001:db9::1]", 443, NULL, false },
	{ "loopback is not left out by itself", "a.test", "127.0.0.1", 443, NULL, false },
	{ "what names nothing is left out", "<local>,10.*,-a.test,a b..c,a.test", "a.test", 443, NULL, true },
	{ "<local>", "<local>", "host", 443, NULL, false },
	{ "10.*", "10.*", "10.0.0.1", 443, NULL, false },
	{ "a dot", ".", "a.test", 443, NULL, false },
	{ "a star and a dot", "*.", "a.test", 443, NULL, false },
	{ "empty entries", ",,,", "a.test", 443, NULL, false },
	/* clang-format on */
};

static void
exception_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct upstream_variables v = { .https_proxy = "http://p.test:1",
		.http_proxy = "socks5://q.test:2",
		.no_proxy = exceptions[i].no_proxy };
	struct sockaddr_storage sa;
	socklen_t len;
	const struct sockaddr *resolved = NULL;
	struct upstream u;
	struct koda_error err;

	if (exceptions[i].resolved != NULL) {
		assert_true(address_parse(exceptions[i].resolved, 0, &sa, &len));
		resolved = (struct sockaddr *)&sa;
	}
	assert_int_equal(upstream_parse(&v, &u, &err), 0);
	assert_ptr_equal(upstream_for(&u, exceptions[i].host, exceptions[i].port, false, resolved),
	    exceptions[i].direct ? NULL : &u.https);
	assert_ptr_equal(upstream_for(&u, exceptions[i].host, exceptions[i].port, true, resolved),
	    exceptions[i].direct ? NULL : &u.http);
	upstream_done(&u);
}

static void
direct_is_direct(void **state)
{
	struct upstream_variables v = { .http_proxy = "http://p.test:1" };
	struct upstream u;
	struct koda_error err;

	assert_int_equal(upstream_parse(&v, &u, &err), 0);
	assert_null(upstream_for(&u, "a.test", 443, false, NULL));
	assert_ptr_equal(upstream_for(&u, "a.test", 80, true, NULL), &u.http);
	upstream_done(&u);
	assert_null(upstream_for(&u, "a.test", 80, true, NULL));
	upstream_done(&u);
}

static void
exceptions_are_bounded(void **state)
{
	char value[2 * UPSTREAM_NO_PROXY_MAX + 3];
	cleanup_free char *long_one = calloc(1, UPSTREAM_VALUE_MAX + 2);
	struct upstream_variables v = { .no_proxy = value };
	struct upstream u;
	struct koda_error err;

	for (size_t i = 0; i <= UPSTREAM_NO_PROXY_MAX; i++)
		memcpy(value + 2 * i, "a,", 3);
	value[2 * UPSTREAM_NO_PROXY_MAX] = '\0';
	assert_int_equal(upstream_parse(&v, &u, &err), 0);
	assert_int_equal(u.n_except, UPSTREAM_NO_PROXY_MAX);
	upstream_done(&u);
	value[2 * UPSTREAM_NO_PROXY_MAX] = 'a';
	assert_int_equal(upstream_parse(&v, &u, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_non_null(strstr(err.message, "NO_PROXY"));
	memset(long_one, 'a', UPSTREAM_VALUE_MAX + 1);
	v.no_proxy = long_one;
	assert_int_equal(upstream_parse(&v, &u, &err), -1);
	assert_non_null(strstr(err.message, "NO_PROXY"));
}

int
main(void)
{
	struct CMUnitTest
	    tests[N_ELEMENTS(values) + N_ELEMENTS(variables) + N_ELEMENTS(exceptions) + 3];
	size_t n = 0;

#define ADD(cases, run)                                                                            \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ cases[i].label, run, NULL, NULL, (void *)i }
	ADD(values, value_case);
	ADD(variables, variables_case);
	ADD(exceptions, exception_case);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_values);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(direct_is_direct);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(exceptions_are_bounded);
	return cmocka_run_group_tests_name("upstream", tests, NULL, NULL);
}
