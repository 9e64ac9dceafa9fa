/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/line.c: bytes as lines, in any pieces; lines as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/line.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

static const struct {
	const char *label, *in;
	const char *lines[5];
	const char *rest; /* NULL: none */
} cases[] = {
	/* clang-format off */
	{ "nothing", "", { NULL }, NULL },
	{ "one line", "abc\n", { "abc" }, NULL },
	{ "lines", "a\nbc\n\nd\n", { "a", "bc", "", "d" }, NULL },
	{ "carriage returns", "a\r\n\r\nb\rc\n", { "a", "", "b\rc" }, NULL },
	{ "no newline at the end", "a\nrest", { "a" }, "rest" },
	/* clang-format on */
};

static void
feed(struct line_reader *r, const char *p, size_t len)
{
	while (len > 0) {
		size_t room, n;
		char *to = line_room(r, &room);

		n = len < room ? len : room;
		memcpy(to, p, n);
		line_came(r, n);
		p += n;
		len -= n;
	}
}

static void
expect_line(struct line_reader *r, const char *want)
{
	const char *line;
	size_t len;

	assert_true(line_ready(r));
	assert_int_equal(line_next(r, &line, &len), LINE_WHOLE);
	assert_int_equal(len, strlen(want));
	assert_memory_equal(line, want, len);
}

static void
expect_none(struct line_reader *r)
{
	const char *line;
	size_t len;

	assert_false(line_ready(r));
	assert_int_equal(line_next(r, &line, &len), LINE_NONE);
}

static void
check_case(void **state)
{
	const size_t c = (uintptr_t)*state, total = strlen(cases[c].in);

	for (size_t piece = 1; piece <= total + 1; piece++) {
		struct line_reader r = { 0 };
		const char *line;
		size_t len, next = 0;

		for (size_t at = 0; at < total; at += piece) {
			feed(&r, cases[c].in + at, total - at < piece ? total - at : piece);
			while (line_ready(&r))
				expect_line(&r, cases[c].lines[next++]);
		}
		assert_null(cases[c].lines[next]);
		expect_none(&r);
		if (cases[c].rest != NULL) {
			assert_int_equal(line_rest(&r, &line, &len), LINE_WHOLE);
			assert_int_equal(len, strlen(cases[c].rest));
			assert_memory_equal(line, cases[c].rest, len);
		}
		assert_int_equal(line_rest(&r, &line, &len), LINE_NONE);
		line_done(&r);
	}
}

static void
feed_many(struct line_reader *r, size_t len)
{
	static const char many[4096] = { 0 };

	for (size_t n; len > 0; len -= n) {
		n = len < sizeof(many) ? len : sizeof(many);
		feed(r, many, n);
	}
}

static void
longest(void **state)
{
	struct line_reader r = { 0 };
	const char *line;
	size_t len;

	feed_many(&r, LINE_MAX_BYTES);
	expect_none(&r);
	feed(&r, "\n", 1);
	assert_int_equal(line_next(&r, &line, &len), LINE_WHOLE);
	assert_int_equal(len, LINE_MAX_BYTES);
	line_done(&r);
}

/* Reported once, never held in full, and the next line is read normally. */
static void
too_long(void **state)
{
	struct line_reader r = { 0 };
	const char *line;
	size_t len;

	feed_many(&r, LINE_MAX_BYTES + 1);
	assert_true(line_ready(&r));
	assert_int_equal(line_next(&r, &line, &len), LINE_TOO_LONG);
	for (int i = 0; i < 3; i++) {
		feed_many(&r, LINE_MAX_BYTES / 2);
		expect_none(&r);
		assert_true(r.size < 2 * LINE_MAX_BYTES + (1u << 20));
	}
	feed(&r, "end\nnext\n", 9);
	expect_line(&r, "next");
	expect_none(&r);
	line_done(&r);
}

/* Too long, and read in one piece with its newline. */
static void
too_long_whole(void **state)
{
	struct line_reader r = { 0 };
	const char *line;
	size_t len;

	feed_many(&r, LINE_MAX_BYTES + 1);
	feed(&r, "\nnext\n", 6);
	assert_int_equal(line_next(&r, &line, &len), LINE_TOO_LONG);
	expect_line(&r, "next");
	line_done(&r);
}

static void
memory_is_given_back(void **state)
{
	struct line_reader r = { 0 };
	struct line_queue q = { 0 };
	char *large = calloc(1, 1 << 20);
	const char *line;
	size_t len;

	assert_non_null(large);
	feed_many(&r, LINE_MAX_BYTES);
	feed(&r, "\n", 1);
	assert_int_equal(line_next(&r, &line, &len), LINE_WHOLE);
	line_room(&r, &len);
	assert_true(r.size < 1 << 20);
	line_put(&q, large, 1 << 20);
	line_drop(&q, (1 << 20) + 1);
	assert_true(q.size < 1 << 20);
	line_done(&r);
	line_queue_done(&q);
	free(large);
}

static void
queue(void **state)
{
	struct line_queue q = { 0 };
	const char *p;
	size_t len;

	assert_null(line_peek(&q, &len));
	line_put(&q, "one", 3);
	line_put(&q, "", 0);
	line_put(&q, "two", 3);
	assert_int_equal(line_queued(&q), 9);
	p = line_peek(&q, &len);
	assert_int_equal(len, 9);
	assert_memory_equal(p, "one\n\ntwo\n", 9);
	line_drop(&q, 5);
	p = line_peek(&q, &len);
	assert_memory_equal(p, "two\n", 4);
	line_put(&q, "three", 5);
	p = line_peek(&q, &len);
	assert_int_equal(len, 10);
	assert_memory_equal(p, "two\nthree\n", 10);
	line_drop(&q, 10);
	assert_null(line_peek(&q, &len));
	line_queue_done(&q);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(longest),
		cmocka_unit_test(too_long),
		cmocka_unit_test(too_long_whole),
		cmocka_unit_test(memory_is_given_back),
		cmocka_unit_test(queue),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(single)];
	size_t n = 0;

	CASES(cases, check_case);
	OTHERS(single);
	return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
