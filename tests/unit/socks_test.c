/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/accept/socks.c: what a SOCKS client may say, and what it is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/accept/socks.h"
#include "shared/base/cleanup.h"

#define T(text) (text), sizeof(text) - 1

static const char *const tails[] = { "", "\x05", "x\r\n", "\xff\xff\xff" };

/* Exactly as long, so that a read past the end is found. */
static char *
exact(const char *text, size_t len, const char *tail)
{
	char *copy = malloc(len + strlen(tail) + 1);

	assert_non_null(copy);
	memcpy(copy, text, len);
	memcpy(copy + len, tail, strlen(tail));
	return realloc(copy, len + strlen(tail) + (len + strlen(tail) == 0));
}

/* ---- what a client says ---- */

static const struct {
	const char *label, *text;
	size_t len;
	enum socks_result want;
} greetings[] = {
	/* clang-format off */
	{ "greeting: none", T("\x05\x01\x00"), SOCKS_OK },
	{ "greeting: none and login", T("\x05\x02\x02\x00"), SOCKS_OK },
	{ "greeting: many", T("\x05\x06\x01\x02\x03\x80\xff\x00"), SOCKS_OK },
	{ "greeting: login alone", T("\x05\x01\x02"), SOCKS_NO_METHOD },
	{ "greeting: GSSAPI alone", T("\x05\x01\x01"), SOCKS_NO_METHOD },
	{ "greeting: no method at all", T("\x05\x00"), SOCKS_NO_METHOD },
	/* clang-format on */
};

static void
greeting_case(void **state)
{
	size_t i = (uintptr_t)*state, len;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text = exact(greetings[i].text, greetings[i].len, tails[k]);

		len = 999;
		assert_int_equal(socks_greeting_parse(text, greetings[i].len + strlen(tails[k]),
				     &len),
		    greetings[i].want);
		assert_int_equal(len, greetings[i].len);
	}
	for (size_t n = 0; n < greetings[i].len; n++) {
		cleanup_free char *text = exact(greetings[i].text, n, "");

		assert_int_equal(socks_greeting_parse(text, n, &len), SOCKS_INCOMPLETE);
	}
}

static void
other_versions(void **state)
{
	static const char *const texts[] = { "\x04\x01\x01\xbb\x01\x02\x03\x04u", "\x06\x01\x01",
		"GET / HTTP/1.1\r\n" };
	struct socks_request r;
	unsigned char b;
	size_t len;

	for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
		for (size_t n = 1; n < strlen(texts[i]); n++) {
			assert_int_equal(socks_greeting_parse(texts[i], n, &len), SOCKS_BAD);
			assert_int_equal(socks_request_parse(texts[i], n, &r), SOCKS_BAD);
			assert_int_equal(socks_client_method(texts[i], n, true, &len, &b),
			    SOCKS_BAD);
			assert_int_equal(socks_client_reply(texts[i], n, &len, &b), SOCKS_BAD);
			assert_int_equal(socks_client_logged_in(texts[i], n, &len), SOCKS_BAD);
		}
	}
}

#define NAME_255                                                                                   \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."                         \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."                         \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."                         \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	const char *label, *text;
	size_t len;
	enum socks_result want;
	const char *host; /* for SOCKS_OK */
	enum domain_kind kind;
	unsigned port;
	enum socks_reply reply; /* for SOCKS_REFUSE */
} requests[] = {
	/* clang-format off */
	{ "a name", T("\x05\x01\x00\x03\x06" "a.test\x01\xbb"), SOCKS_OK, "a.test", DOMAIN_NAME, 443, 0 },
	{ "a name, canonical", T("\x05\x01\x00\x03\x07" "A.Test.\x00\x50"), SOCKS_OK, "a.test", DOMAIN_NAME, 80, 0 },
	{ "port 65535", T("\x05\x01\x00\x03\x01" "a\xff\xff"), SOCKS_OK, "a", DOMAIN_NAME, 65535, 0 },
	{ "IPv4", T("\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb"), SOCKS_OK, "192.0.2.1", DOMAIN_IPV4, 443, 0 },
	{ "IPv4 as a name", T("\x05\x01\x00\x03\x09" "192.0.2.1\x01\xbb"), SOCKS_OK, "192.0.2.1", DOMAIN_IPV4, 443, 0 },
	{ "IPv6", T("\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb"), SOCKS_OK, "[2001:db8::1]", DOMAIN_IPV6, 443, 0 },
	{ "IPv6, mapped", T("\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\x01\xbb"), SOCKS_OK, "[::ffff:127.0.0.1]", DOMAIN_IPV6, 443, 0 },
	{ "IPv6 as a name", T("\x05\x01\x00\x03\x07" "FE00::2\x01\xbb"), SOCKS_OK, "[fe00::2]", DOMAIN_IPV6, 443, 0 },
	{ "IPv6 as a name, in brackets", T("\x05\x01\x00\x03\x05" "[::1]\x01\xbb"), SOCKS_OK, "[::1]", DOMAIN_IPV6, 443, 0 },
	{ "BIND", T("\x05\x02\x00\x03\x06" "a.test\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_COMMAND },
	{ "BIND, IPv4", T("\x05\x02\x00\x01\xc0\x00\x02\x01\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_COMMAND },
	{ "UDP ASSOCIATE", T("\x05\x03\x00\x01\0\0\0\0\0\0"), SOCKS_REFUSE, "", 0, 0, SOCKS_COMMAND },
	{ "UDP ASSOCIATE, IPv6", T("\x05\x03\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), SOCKS_REFUSE, "", 0, 0, SOCKS_COMMAND },
	{ "Tor's RESOLVE", T("\x05\xf0\x00\x03\x06" "a.test\x00\x00"), SOCKS_REFUSE, "", 0, 0, SOCKS_COMMAND },
	{ "command 0", T("\x05\x00\x00\x03\x06" "a.test\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_COMMAND },
	{ "no name", T("\x05\x01\x00\x03\x00\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "NUL in a name", T("\x05\x01\x00\x03\x08" "a.test\0b\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "NUL behind a name", T("\x05\x01\x00\x03\x07" "a.test\0\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "CR LF in a name", T("\x05\x01\x00\x03\x0a" "a.test\r\nHo\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "a port in a name", T("\x05\x01\x00\x03\x09" "a.test:80\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "userinfo", T("\x05\x01\x00\x03\x0d" "a.test@b.test\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "decimal", T("\x05\x01\x00\x03\x0a" "2130706433\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "octal", T("\x05\x01\x00\x03\x0a" "0177.0.0.1\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "a zone", T("\x05\x01\x00\x03\x09" "fe80::1%1\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "not ASCII", T("\x05\x01\x00\x03\x07" "\xc3\xbc.test\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "a name of 255", T("\x05\x01\x00\x03\xff" NAME_255 "\x01\xbb"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	{ "port 0", T("\x05\x01\x00\x03\x06" "a.test\x00\x00"), SOCKS_REFUSE, "", 0, 0, SOCKS_FAILURE },
	/* clang-format on */
};

static void
request_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct socks_request r;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text = exact(requests[i].text, requests[i].len, tails[k]);

		memset(&r, 0xa5, sizeof(r));
		assert_int_equal(socks_request_parse(text, requests[i].len + strlen(tails[k]), &r),
		    requests[i].want);
		assert_int_equal(r.len, requests[i].len);
		assert_int_equal(r.command, (unsigned char)requests[i].text[1]);
		assert_int_equal(r.atyp, (unsigned char)requests[i].text[3]);
		if (requests[i].want == SOCKS_OK) {
			assert_string_equal(r.host, requests[i].host);
			assert_int_equal(r.kind, requests[i].kind);
			assert_int_equal(r.port, requests[i].port);
		} else {
			assert_int_equal(r.reply, requests[i].reply);
			assert_non_null(r.why);
		}
	}
	for (size_t n = 0; n < requests[i].len; n++) {
		cleanup_free char *text = exact(requests[i].text, n, "");

		assert_int_equal(socks_request_parse(text, n, &r), SOCKS_INCOMPLETE);
	}
}

static void
unknown_address_type(void **state)
{
	struct socks_request r;

	for (unsigned type = 0; type < 256; type++) {
		char text[] = { 5, 1, 0, (char)type };
		cleanup_free char *copy = exact(text, 4, "\xff");
		bool known = type == 1 || type == 3 || type == 4;

		assert_int_equal(socks_request_parse(copy, 4, &r),
		    known ? SOCKS_INCOMPLETE : SOCKS_REFUSE);
		if (known)
			continue;
		assert_int_equal(r.reply, SOCKS_ADDRESS_TYPE);
		assert_int_equal(socks_request_parse(copy, 5, &r), SOCKS_REFUSE);
		assert_int_equal(r.reply, SOCKS_ADDRESS_TYPE);
		assert_int_equal(r.len, 4);
	}
}

static void
reserved_byte(void **state)
{
	struct socks_request r;

	assert_int_equal(socks_request_parse("\x05\x01\x01", 3, &r), SOCKS_BAD);
	assert_int_equal(socks_request_parse("\x05\x01\x01\x03\x01"
					     "a\x01\xbb",
			     8, &r),
	    SOCKS_BAD);
}

static void
answers(void **state)
{
	unsigned char reply[SOCKS_REPLY_LEN];

	memset(reply, 0xa5, sizeof(reply));
	socks_reply(SOCKS_NOT_ALLOWED, reply);
	assert_memory_equal(reply, "\x05\x02\x00\x01\0\0\0\0\0\0", sizeof(reply));
}

/* ---- what we say to another proxy, and what it answers ---- */

static void
client_speaks(void **state)
{
	unsigned char greeting[SOCKS_GREETING_MAX], login[3 + 255 + 255],
	    request[SOCKS_REQUEST_MAX];
	char long_one[256];
	static const struct {
		const char *host;
		enum domain_kind kind;
		const char *text;
		size_t len;
	} cases[] = {
		/* clang-format off */
		{ "a.test", DOMAIN_NAME, T("\x05\x01\x00\x03\x06" "a.test\x20\xfb") },
		{ "192.0.2.1", DOMAIN_IPV4, T("\x05\x01\x00\x01\xc0\x00\x02\x01\x20\xfb") },
		{ "[2001:db8::1]", DOMAIN_IPV6, T("\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\xfb") },
		/* clang-format on */
	};

	assert_int_equal(socks_client_greeting(false, greeting), 3);
	assert_memory_equal(greeting, "\x05\x01\x00", 3);
	assert_int_equal(socks_client_greeting(true, greeting), 4);
	assert_memory_equal(greeting, "\x05\x02\x00\x02", 4);
	assert_int_equal(socks_client_login("us", "", login), 5);
	assert_memory_equal(login, "\x01\x02us\x00", 5);
	assert_int_equal(socks_client_login("u", "pw", login), 6);
	assert_memory_equal(login, "\x01\x01u\x02pw", 6);
	memset(long_one, 'l', 255);
	long_one[255] = '\0';
	assert_int_equal(socks_client_login(long_one, long_one, login), sizeof(login));
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct socks_request r;
		size_t n = socks_client_request(cases[i].host, cases[i].kind, 8443, request);

		assert_int_equal(n, cases[i].len);
		assert_memory_equal(request, cases[i].text, n);
		/* Our own server side reads it back. */
		assert_int_equal(socks_request_parse(request, n, &r), SOCKS_OK);
		assert_string_equal(r.host, cases[i].host);
	}
}

static void
methods(void **state)
{
	static const struct {
		const char *text;
		bool credentials;
		enum socks_result want;
	} cases[] = {
		{ "\x05\x00", false, SOCKS_OK },
		{ "\x05\x00", true, SOCKS_OK },
		{ "\x05\x02", true, SOCKS_OK },
		{ "\x05\x02", false, SOCKS_BAD }, /* not offered */
		{ "\x05\x01", true, SOCKS_BAD },
		{ "\x05\xff", true, SOCKS_NO_METHOD },
	};
	unsigned char method;
	size_t len;

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		len = 0;
		assert_int_equal(socks_client_method(cases[i].text, 2, cases[i].credentials, &len,
				     &method),
		    cases[i].want);
		assert_int_equal(len, 2);
		assert_int_equal(method, (unsigned char)cases[i].text[1]);
		for (size_t n = 0; n < 2; n++)
			assert_int_equal(socks_client_method(cases[i].text, n, cases[i].credentials,
					     &len, &method),
			    SOCKS_INCOMPLETE);
	}
}

static void
logins(void **state)
{
	size_t len = 0;

	assert_int_equal(socks_client_logged_in("\x01\x00x", 3, &len), SOCKS_OK);
	assert_int_equal(len, 2);
	assert_int_equal(socks_client_logged_in("\x05\x00", 2, &len), SOCKS_OK);
	assert_int_equal(socks_client_logged_in("\x01\x01", 2, &len), SOCKS_REFUSE);
	assert_int_equal(socks_client_logged_in("\x01\xff", 2, &len), SOCKS_REFUSE);
	assert_int_equal(socks_client_logged_in("\x01", 1, &len), SOCKS_INCOMPLETE);
	assert_int_equal(socks_client_logged_in("", 0, &len), SOCKS_INCOMPLETE);
	assert_int_equal(socks_client_logged_in("\x02\x00", 2, &len), SOCKS_BAD);
}

static const struct {
	const char *label, *text;
	size_t len;
} replies[] = {
	/* clang-format off */
	{ "reply: IPv4", T("\x05\x00\x00\x01\x01\x02\x03\x04\x01\xbb") },
	{ "reply: IPv6", T("\x05\x00\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\xbb") },
	{ "reply: a name", T("\x05\x00\x00\x03\x06" "a.test\x01\xbb") },
	{ "reply: an empty name", T("\x05\x00\x00\x03\x00\x00\x00") },
	{ "reply: the longest name", T("\x05\x00\x00\x03\xff" NAME_255 "\x01\xbb") },
	/* clang-format on */
};

/* Parsed to its last byte and not further: what follows is the server's. */
static void
reply_case(void **state)
{
	size_t i = (uintptr_t)*state, len;
	unsigned char code;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		cleanup_free char *text = exact(replies[i].text, replies[i].len, tails[k]);

		assert_int_equal(socks_client_reply(text, replies[i].len + strlen(tails[k]), &len,
				     &code),
		    SOCKS_OK);
		assert_int_equal(len, replies[i].len);
		assert_int_equal(code, 0);
	}
	for (size_t n = 0; n < replies[i].len; n++) {
		cleanup_free char *text = exact(replies[i].text, n, "");

		assert_int_equal(socks_client_reply(text, n, &len, &code), SOCKS_INCOMPLETE);
	}
}

static void
replies_that_refuse(void **state)
{
	unsigned char code;
	size_t len;

	for (unsigned i = 1; i < 256; i++) {
		char text[] = { 5, (char)i };

		assert_int_equal(socks_client_reply(text, 2, &len, &code), SOCKS_REFUSE);
		assert_int_equal(code, i);
	}
	assert_int_equal(socks_client_reply("\x05\x00\x00\x02", 4, &len, &code), SOCKS_BAD);
}

int
main(void)
{
	struct CMUnitTest
	    tests[N_ELEMENTS(greetings) + N_ELEMENTS(requests) + N_ELEMENTS(replies) + 8];
	size_t n = 0;

#define ADD(cases, run)                                                                            \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ cases[i].label, run, NULL, NULL, (void *)i }
	ADD(greetings, greeting_case);
	ADD(requests, request_case);
	ADD(replies, reply_case);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(other_versions);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(unknown_address_type);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(reserved_byte);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(answers);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(client_speaks);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(methods);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(logins);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(replies_that_refuse);
	return cmocka_run_group_tests_name("socks", tests, NULL, NULL);
}
