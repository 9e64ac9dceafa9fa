/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show/asked.c: how a question to the user is shown when its author tries to trick the user into
 * a yes.
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
#include "show/asked.h"
#include "tests/kit/cases.h"

struct out {
	char p[16384];
	size_t len;
};

static void
put(void *to, const void *data, size_t len)
{
	struct out *o = to;

	assert_true(o->len + len < sizeof(o->p));
	memcpy(o->p + o->len, data, len);
	o->len += len;
	o->p[o->len] = '\0';
}

#define TEN     "          "
#define FORTY   TEN TEN TEN TEN
#define EIGHT_T "\t\t\t\t\t\t\t\t"

static const struct {
	const char *label, *in, *out;
	bool no_tabs;
} cases[] = {
	/* clang-format off */
	{ "text", "rm -rf build", "rm -rf build", false },
	{ "nothing", "", "", false },
	{ "text of another language", "gr\xc3\xbc\xc3\x9f \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xce\xb1\xce\xb2\xce\xb3 \xe4\xb8\xad\xe6\x96\x87", "gr\xc3\xbc\xc3\x9f \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xce\xb1\xce\xb2\xce\xb3 \xe4\xb8\xad\xe6\x96\x87", false },

	/* Pushed out of sight. */
	{ "blanks before the bad part", "ls" FORTY "; rm -rf ~", "ls[40 spaces]; rm -rf ~", false },
	{ "as many as are shown", "a" TEN TEN TEN "  b", "a" TEN TEN TEN "  b", false },
	{ "one more", "a" TEN TEN TEN "   b", "a[33 spaces]b", false },
	{ "deep code", FORTY TEN TEN "return;", FORTY TEN TEN "return;", false },
	{ "deeper than that", FORTY FORTY "return;", "[80 spaces]return;", false },
	{ "tabs that indent", EIGHT_T "return;", EIGHT_T "return;", false },
	{ "tabs in a line", "a" EIGHT_T "b", "a[8 tabs]b", false },
	{ "tabs and spaces", "a\t \t \t \t \t b", "a[10 blanks]b", false },
	{ "tabs where there are none", "a\tb", "a\\x09b", true },
	{ "at the end", "a" FORTY, "a[40 spaces]", false },
	{ "blanks that are none of ASCII", "a\xc2\xa0\xe2\x80\x83\xe3\x80\x80" "b", "a\\u{a0}\\u{2003}\\u{3000}b", false },
	{ "each of U+2000 to U+200A", "\xe2\x80\x80\xe2\x80\x85\xe2\x80\x8a", "\\u{2000}\\u{2005}\\u{200a}", false },
	{ "narrow, mathematical, of Ogham", "\xe2\x80\xaf\xe2\x81\x9f\xe1\x9a\x80", "\\u{202f}\\u{205f}\\u{1680}", false },
	{ "letters without ink", "\xe3\x85\xa4\xe1\x85\x9f\xe1\x85\xa0\xef\xbe\xa0\xe2\xa0\x80", "\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}\\u{2800}", false },

	/* Not what it looks like. */
	{ "zero width", "a\xe2\x80\x8b\xe2\x80\x8d\xe2\x81\xa0\xef\xbb\xbf" "b", "a\\u{200b}\\u{200d}\\u{2060}\\u{feff}b", false },
	{ "combining marks", "a\xcc\x81\xcd\x8f e\xe2\x83\x9d \xef\xb8\xa0 \xe1\xb7\x80", "a\\u{301}\\u{34f} e\\u{20dd} \\u{fe20} \\u{1dc0}", false },
	{ "a line struck out", "r\xcc\xb6m\xcc\xb6", "r\\u{336}m\\u{336}", false },
	{ "an override", "a\xe2\x80\xae" "b", "a\\u{202e}b", false },
	{ "an escape sequence", "\033[2K\r", "\\x1b[2K\\x0d", false },
	{ "no UTF-8", "a\xff" "b", "a\\xffb", false },
	{ "Cyrillic in Latin", "p\xd0\xb0ypal.com", "p\xd0\xb0ypal[mixed scripts].com", false },
	{ "Latin in Cyrillic", "\xd0\xbf\xd1\x80" "a", "\xd0\xbf\xd1\x80" "a[mixed scripts]", false },
	{ "Greek in Latin", "g\xce\xbf\xce\xbfgle x", "g\xce\xbf\xce\xbfgle[mixed scripts] x", false },
	{ "at the end", "\xd1\x81url", "\xd1\x81url[mixed scripts]", false },
	{ "several words", "\xd1\x81url \xd1\x81 curl \xd1\x81url", "\xd1\x81url[mixed scripts] \xd1\x81 curl \xd1\x81url[mixed scripts]", false },
	{ "with digits and underscores between", "a1_\xd0\xb0", "a1_\xd0\xb0[mixed scripts]", false },
	{ "with something hidden between", "a\xe2\x80\x8b\xd0\xb0", "a\\u{200b}\xd0\xb0[mixed scripts]", false },
	{ "each for itself", "abc-\xd0\xb0\xd0\xb1/\xce\xb1\xce\xb2", "abc-\xd0\xb0\xd0\xb1/\xce\xb1\xce\xb2", false },
	{ "a dash between them", "abc\xe2\x80\x94\xd0\xb0\xd0\xb1", "abc\xe2\x80\x94\xd0\xb0\xd0\xb1", false },
	{ "wide letters", "\xef\xbd\x83url", "\xef\xbd\x83url[mixed scripts]", false },
	{ "letters of mathematics", "\xf0\x9d\x90\x9c" "url", "\xf0\x9d\x90\x9c" "url[mixed scripts]", false },
	{ "Armenian, Cherokee", "\xd5\xb8k \xe1\x8e\xaak", "\xd5\xb8k[mixed scripts] \xe1\x8e\xaak[mixed scripts]", false },
	{ "a trade mark is no letter", "Foo\xe2\x84\xa2 20\xe2\x84\x83", "Foo\xe2\x84\xa2 20\xe2\x84\x83", false },
	{ "Latin and Chinese", "\xe6\x96\x87name", "\xe6\x96\x87name", false },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct out o = { .len = 0 };

	o.p[0] = '\0';
	asked_show(cases[i].in, strlen(cases[i].in), !cases[i].no_tabs, put, &o);
	assert_string_equal(o.p, cases[i].out);
}

static void
long_line(void **state)
{
	char line[ASKED_LINE_MAX + 1000];
	struct out o = { .len = 0 };

	memset(line, 'x', sizeof(line));
	memcpy(line, "head", 4);
	memcpy(line + sizeof(line) - 4, "tail", 4);
	assert_int_equal(asked_line(line, ASKED_LINE_MAX, put, &o), 0);
	assert_int_equal(o.len, ASKED_LINE_MAX);
	o.len = 0;
	assert_int_equal(asked_line(line, sizeof(line), put, &o), 1000);
	assert_memory_equal(o.p, "head", 4);
	assert_memory_equal(o.p + o.len - 4, "tail", 4);
	assert_non_null(strstr(o.p, "x [... 1000 bytes are left out here ...] x"));
}

/* Continuation bytes without a character do not move the cut. */
static void
cut_between_bytes(void **state)
{
	char line[3000];
	size_t head, tail;

	memset(line, 0x80, sizeof(line));
	assert_true(asked_split(line, sizeof(line), &head, &tail));
	assert_int_equal(head, ASKED_LINE_HEAD);
	assert_int_equal(tail, sizeof(line) - ASKED_LINE_TAIL);
}

/* A cut does not split a character. */
static void
cut_between_characters(void **state)
{
	char line[3000];
	struct out o = { .len = 0 };

	for (size_t i = 0; i < sizeof(line); i += 3)
		memcpy(line + i, "\xe2\x82\xac", 3);
	assert_int_equal(asked_line(line, sizeof(line), put, &o) % 3, 0);
	assert_null(strstr(o.p, "\\x82"));
}

static void
lines(void **state)
{
	size_t shown = 0;

	assert_int_equal(asked_hidden(ASKED_LINES_MAX), 0);
	assert_int_equal(asked_hidden(ASKED_LINES_MAX + 1), 1);
	assert_false(asked_is_hidden(ASKED_LINES_HEAD, ASKED_LINES_MAX));
	for (size_t i = 0; i < 5000; i++)
		shown += !asked_is_hidden(i, 5000);
	assert_int_equal(shown, ASKED_LINES_MAX);
	assert_false(asked_is_hidden(0, 5000));
	assert_false(asked_is_hidden(4999, 5000));
	assert_true(asked_is_hidden(ASKED_LINES_HEAD, 5000));
}

static void
empty_lines(void **state)
{
	size_t run = 0, counted;

	for (size_t i = 0; i < ASKED_EMPTY_MAX; i++)
		assert_false(asked_counts(&run, " \t\r", 3, &counted));
	assert_true(asked_counts(&run, "", 0, &counted));
	assert_true(asked_counts(&run, "  ", 2, &counted));
	assert_false(asked_counts(&run, "x", 1, &counted));
	assert_int_equal(counted, 2);
	assert_false(asked_counts(&run, "x", 1, &counted));
	assert_int_equal(counted, 0);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(long_line),
		cmocka_unit_test(cut_between_characters),
		cmocka_unit_test(cut_between_bytes),
		cmocka_unit_test(lines),
		cmocka_unit_test(empty_lines),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(single)];
	size_t n = 0;

	CASES(cases, check_case);
	OTHERS(single);
	return cmocka_run_group_tests_name("asked", tests, NULL, NULL);
}
