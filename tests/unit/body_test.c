/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/serve/body.c: where the body of a message ends, whatever pieces it comes in, and which
 * framing is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/serve/body.h"
#include "shared/base/cleanup.h"

#define T(text) (text), sizeof(text) - 1

/* Feeds bytes in pieces of at most `piece`. Returns the result, the content and how much was
 * taken. */
static enum http_result
feed(struct body *b, const char *bytes, size_t n, size_t piece, char *content, size_t *ret_content,
    size_t *ret_taken, const char **why)
{
	size_t at = 0, taken, len;
	const char *run;

	*ret_content = 0;
	while (at < n && !body_over(b)) {
		size_t have = n - at < piece ? n - at : piece;
		/* Exactly as long, so that a read past the end is found. */
		cleanup_free char *copy = malloc(have);
		size_t from = 0;
		enum http_result r = HTTP_OK;

		assert_non_null(copy);
		memcpy(copy, bytes + at, have);
		while (from < have && !body_over(b)) {
			r = body_take(b, copy + from, have - from, &taken, &run, &len, why);
			if (r == HTTP_BAD)
				return r;
			assert_true(taken <= have - from && len <= taken);
			assert_true(taken > 0);
			assert_true(run >= copy + from && run + len <= copy + from + taken);
			assert_true(r == HTTP_OK || (taken == have - from && !body_over(b)));
			memcpy(content + *ret_content, run, len);
			*ret_content += len;
			from += taken;
		}
		at += from;
	}
	*ret_taken = at;
	return body_over(b) ? HTTP_OK : HTTP_INCOMPLETE;
}

static struct body
chunked(void)
{
	struct http_head *head = calloc(1, sizeof(*head));
	struct body b;

	assert_non_null(head);
	head->body = HTTP_BODY_CHUNKED;
	body_init(&b, head);
	free(head);
	return b;
}

static const struct {
	const char *label, *text;
	size_t len;
	const char *content;
} good[] = {
	/* clang-format off */
	{ "empty", T("0\r\n\r\n"), "" },
	{ "one", T("5\r\nhello\r\n0\r\n\r\n"), "hello" },
	{ "two", T("5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"), "hello, world" },
	{ "hex, both cases", T("a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n"), "01234567890123456789a" },
	{ "leading zeros", T("0000000000000005\r\nhello\r\n000\r\n\r\n"), "hello" },
	{ "content that looks like framing", T("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"), "\r\n0\r\n\r\n" },
	{ "trailers", T("1\r\nx\r\n0\r\nA: b\r\nC:\td\xff\r\n\r\n"), "x" },
	{ "an empty trailer", T("0\r\nA:\r\n\r\n"), "" },
	/* clang-format on */
};

static void
good_case(void **state)
{
	static const char *const tails[] = { "", "0\r\n\r\n", "GET / HTTP/1.1\r\n", "\r\n" };
	size_t i = (uintptr_t)*state, len = good[i].len, n, taken;
	char content[128];
	const char *why;

	for (size_t k = 0; k < N_ELEMENTS(tails); k++) {
		char text[256];
		size_t all = len + strlen(tails[k]);

		memcpy(text, good[i].text, len);
		memcpy(text + len, tails[k], strlen(tails[k]));
		for (size_t piece = 1; piece <= all; piece++) {
			struct body b = chunked();

			assert_false(body_over(&b));
			assert_int_equal(feed(&b, text, all, piece, content, &n, &taken, &why),
			    HTTP_OK);
			assert_int_equal(taken, len);
			assert_int_equal(n, strlen(good[i].content));
			assert_memory_equal(content, good[i].content, n);
			assert_true(body_end(&b));
		}
	}
	for (size_t cut = 0; cut < len; cut++) {
		struct body b = chunked();

		assert_int_equal(feed(&b, good[i].text, cut, 3, content, &n, &taken, &why),
		    HTTP_INCOMPLETE);
		assert_int_equal(taken, cut);
		assert_false(body_over(&b));
		assert_false(body_end(&b));
	}
}

static const struct {
	const char *label, *text;
	size_t len;
	const char *why;
} bad[] = {
	/* clang-format off */
	{ "an extension", T("5;a=b\r\nhello\r\n0\r\n\r\n"), "extension" },
	{ "an extension of the last", T("0;a\r\n\r\n"), "extension" },
	{ "an extension with LF", T("5;\nhello\r\n"), "extension" },
	{ "a space behind the size", T("5 \r\nhello\r\n"), "not a plain number" },
	{ "a space before the size", T(" 5\r\nhello\r\n"), "not a plain number" },
	{ "a tab", T("5\t\r\nhello\r\n"), "not a plain number" },
	{ "0x", T("0x5\r\nhello\r\n"), "not a plain number" },
	{ "a sign", T("+5\r\nhello\r\n"), "not a plain number" },
	{ "minus", T("-1\r\nhello\r\n"), "not a plain number" },
	{ "an underscore", T("1_0\r\n"), "not a plain number" },
	{ "no size", T("\r\nhello\r\n"), "not a plain number" },
	{ "no size, extension", T(";a\r\n"), "not a plain number" },
	{ "a letter", T("g\r\n"), "not a plain number" },
	{ "NUL", T("5\0\r\n"), "not a plain number" },
	{ "17 digits", T("00000000000000005\r\nhello\r\n"), "too large" },
	{ "2^63", T("8000000000000000\r\n"), "too large" },
	{ "2^64 - 1", T("ffffffffffffffff\r\n"), "too large" },
	{ "2^64 + 5", T("10000000000000005\r\n"), "too large" },
	{ "LF behind the size", T("5\nhello\r\n"), "not a plain number" },
	{ "CR behind the size", T("5\rhello\r\n"), "CR without LF" },
	{ "CR CR LF", T("5\r\r\nhello\r\n"), "CR without LF" },
	{ "content too long", T("4\r\nhello\r\n"), "where its size says" },
	{ "content too short", T("6\r\nhello\r\n0\r\n\r\n"), "where its size says|CR without LF" },
	{ "LF behind content", T("5\r\nhello\n0\r\n\r\n"), "where its size says" },
	{ "CR behind content", T("5\r\nhello\r0\r\n\r\n"), "CR without LF" },
	{ "LF at the end", T("0\r\n\n"), "trailer without a name" },
	{ "CR at the end", T("0\r\n\rx"), "CR without LF" },
	{ "a folded trailer", T("0\r\nA: b\r\n c\r\n\r\n"), "trailer without a name" },
	{ "a trailer without ':'", T("0\r\nA\r\n\r\n"), "trailer without ':'" },
	{ "a trailer without a name", T("0\r\n: b\r\n\r\n"), "trailer without a name" },
	{ "a space before ':'", T("0\r\nA : b\r\n\r\n"), "trailer without ':'" },
	{ "a trailer with LF", T("0\r\nA: b\n\r\n"), "control character" },
	{ "a trailer with NUL", T("0\r\nA: \0\r\n\r\n"), "control character" },
	{ "a trailer with CR", T("0\r\nA: \rb\r\n\r\n"), "CR without LF" },
	/* clang-format on */
};

static void
bad_case(void **state)
{
	size_t i = (uintptr_t)*state, n, taken;
	char content[128];
	const char *why;
	char * or = strchr(bad[i].why, '|');
	size_t first = or == NULL ? strlen(bad[i].why) : (size_t)(or -bad[i].why);

	for (size_t piece = 1; piece <= bad[i].len; piece++) {
		struct body b = chunked();

		assert_int_equal(feed(&b, bad[i].text, bad[i].len, piece, content, &n, &taken,
				     &why),
		    HTTP_BAD);
		if (memmem(why, strlen(why), bad[i].why, first) == NULL &&
		    (or == NULL || strstr(why, or +1) == NULL))
			fail_msg("refused as: %s", why);
	}
	for (size_t cut = 0; cut < bad[i].len; cut++) {
		struct body b = chunked();

		assert_int_not_equal(feed(&b, bad[i].text, cut, 1, content, &n, &taken, &why),
		    HTTP_OK);
	}
}

static void
a_large_chunk_is_counted(void **state)
{
	struct body b = chunked();
	static char block[1 << 16];
	size_t taken, len;
	const char *content, *why;
	uint64_t left = INT64_MAX;

	assert_int_equal(body_take(&b, "7fffffffffffffff\r\n", 18, &taken, &content, &len, &why),
	    HTTP_INCOMPLETE);
	assert_int_equal(taken, 18);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(body_take(&b, block, sizeof(block), &taken, &content, &len, &why),
		    HTTP_INCOMPLETE);
		assert_int_equal(len, sizeof(block));
		left -= len;
	}
	assert_true(b.left == left);
	assert_false(body_end(&b));
}

static void
trailers_are_bounded(void **state)
{
	struct body b = chunked();
	size_t taken, len, i;
	const char *content, *why = "";
	enum http_result r = HTTP_INCOMPLETE;

	assert_int_equal(body_take(&b, "0\r\n", 3, &taken, &content, &len, &why), HTTP_INCOMPLETE);
	for (i = 0; i < 2 * BODY_TRAILER_MAX && r == HTTP_INCOMPLETE; i++)
		r = body_take(&b, &"A: b\r\n"[i % 6], 1, &taken, &content, &len, &why);
	assert_int_equal(r, HTTP_BAD);
	assert_int_equal(i, BODY_TRAILER_MAX + 1);
	assert_string_equal(why, "trailers that are too long");
}

static void
known_length(void **state)
{
	struct http_head *head = calloc(1, sizeof(*head));
	struct body b;
	char content[64];
	size_t n, taken;
	const char *why;

	assert_non_null(head);
	head->body = HTTP_BODY_LENGTH;
	head->length = 5;
	for (size_t piece = 1; piece < 12; piece++) {
		body_init(&b, head);
		assert_false(body_over(&b));
		assert_int_equal(feed(&b, T("helloGET /"), piece, content, &n, &taken, &why),
		    HTTP_OK);
		assert_true(taken == 5 && n == 5 && memcmp(content, "hello", 5) == 0);
		assert_true(body_end(&b));
	}
	for (size_t cut = 0; cut < 5; cut++) {
		body_init(&b, head);
		assert_int_equal(feed(&b, "hello", cut, 2, content, &n, &taken, &why),
		    HTTP_INCOMPLETE);
		assert_int_equal(n, cut);
		assert_false(body_end(&b));
	}
	head->length = 0;
	body_init(&b, head);
	assert_true(body_over(&b));
	head->body = HTTP_BODY_NONE;
	body_init(&b, head);
	assert_true(body_over(&b) && body_end(&b));
	free(head);
}

static void
until_the_end(void **state)
{
	struct http_head *head = calloc(1, sizeof(*head));
	struct body b;
	char content[64];
	size_t n, taken;
	const char *why;

	assert_non_null(head);
	head->body = HTTP_BODY_CLOSE;
	body_init(&b, head);
	free(head);
	assert_int_equal(feed(&b, T("0\r\n\r\nx"), 2, content, &n, &taken, &why), HTTP_INCOMPLETE);
	assert_true(n == 6 && taken == 6 && memcmp(content, "0\r\n\r\nx", 6) == 0);
	assert_false(body_over(&b));
	assert_true(body_end(&b));
	assert_true(body_over(&b));
}

static void
over_takes_nothing(void **state)
{
	struct body b = chunked();
	size_t taken, len;
	const char *content, *why;

	assert_int_equal(body_take(&b, "", 0, &taken, &content, &len, &why), HTTP_INCOMPLETE);
	assert_int_equal(body_take(&b, "0\r\n\r\nx", 6, &taken, &content, &len, &why), HTTP_OK);
	assert_true(taken == 5 && len == 0 && body_over(&b));
	assert_int_equal(body_take(&b, "x", 1, &taken, &content, &len, &why), HTTP_OK);
	assert_true(taken == 0 && len == 0);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(good) + N_ELEMENTS(bad) + 5];
	size_t n = 0;

#define ADD(cases, run)                                                                            \
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)                                             \
	tests[n++] = (struct CMUnitTest){ cases[i].label, run, NULL, NULL, (void *)i }
	ADD(good, good_case);
	ADD(bad, bad_case);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_large_chunk_is_counted);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(trailers_are_bounded);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(known_length);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(until_the_end);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(over_takes_nothing);
	return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
