/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/literal.c and its building block, search/sweep_*.c: each needle at each place of
 * texts of each length, so that every path through the wide loops and their ends is taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "search/decode.h"
#include "search/literal.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

static const struct {
	const char *label, *hay, *needle;
	bool ignore_case;
	int want; /* -1: none */
} cases[] = {
	{ "at the beginning", "abcdef", "abc", false, 0 },
	{ "at the end", "abcdef", "def", false, 3 },
	{ "all of it", "abcdef", "abcdef", false, 0 },
	{ "longer than the text", "abc", "abcd", false, -1 },
	{ "empty text", "", "a", false, -1 },
	{ "one byte", "abcdef", "e", false, 4 },
	{ "one byte, not there", "abcdef", "x", false, -1 },
	{ "the first of two", "xabab", "ab", false, 1 },
	{ "overlapping itself", "aabaabaaab", "aabaaab", false, 3 },
	{ "the same byte throughout", "aaabaaaa", "aaaa", false, 4 },
	{ "case counts", "ABC", "abc", false, -1 },
	{ "case does not count", "xxABCxx", "aBc", true, 2 },
	{ "one letter, whatever case", "xxA", "a", true, 2 },
	{ "no letter: '[' and '{' differ by the bit of case", "a[b", "a{b", true, -1 },
	{ "no letter: '@' and '`'", "@@@", "`", true, -1 },
	{ "digits and signs", "x-1_2-x", "-1_2-", true, 1 },
	{ "beyond ASCII", "na\xc3\xafve", "\xc3\xaf", false, 2 },
	{ "beyond ASCII has no case here", "\xc3\x89", "\xc3\xa9", true, -1 },
};

/*
 * Copies a text, without a NUL, to the end or the beginning of a page that has no other beside it:
 * reading one byte past that side of it is a fault, in any build. Valid until the next call.
 */
static char *
place_alone(const char *text, size_t len, bool at_end)
{
	static char *page;
	static size_t size;

	if (page == NULL) {
		size = (size_t)sysconf(_SC_PAGESIZE);
		page = mmap(NULL, 3 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(page != MAP_FAILED);
		page += size;
		assert_int_equal(mprotect(page, size, PROT_READ | PROT_WRITE), 0);
	}
	assert_true(len <= size);
	return memcpy(page + (at_end ? size - len : 0), text, len);
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	size_t len = strlen(cases[i].hay);
	struct literal l;

	literal_init(&l, cases[i].needle, strlen(cases[i].needle), cases[i].ignore_case);
	for (int end = 0; end < 2; end++) {
		const char *hay = place_alone(cases[i].hay, len, end != 0);
		const char *found = literal_find(&l, hay, len);

		assert_int_equal(found != NULL ? (int)(found - hay) : -1, cases[i].want);
	}
}

/* A text full of one of the needle's bytes, so that there are many candidates. */
static void
check_place(const char *needle, size_t len, size_t before, size_t behind, bool ignore_case)
{
	size_t size = before + len + behind;
	cleanup_free char *hay = malloc(size);
	struct literal l;

	assert_non_null(hay);
	literal_init(&l, needle, len, ignore_case);
	memset(hay, needle[len / 2], size);
	memcpy(hay + before, needle, len);
	for (size_t i = 0; ignore_case && i < len; i += 2)
		if (hay[before + i] >= 'a' && hay[before + i] <= 'z')
			hay[before + i] ^= 0x20;
	assert_ptr_equal(literal_find(&l, hay, size), hay + before);
	/* Without its last byte the needle is not found. */
	assert_null(literal_find(&l, hay, before + len - 1));
}

static void
check_every_place(void **state)
{
	static const char needle[] = "the quick brown fox-jumps over";

	for (size_t len = 2; len < sizeof(needle); len += 3)
		for (size_t before = 0; before < 100; before++)
			for (size_t behind = 0; behind < 70; behind += 23) {
				check_place(needle, len, before, behind, false);
				check_place(needle, len, before, behind, true);
			}
}

static void
check_count(void **state)
{
	enum { SIZE = 20000 }; /* more than a lane of the wide counters holds */
	cleanup_free char *text = malloc(SIZE);

	assert_non_null(text);
	memset(text, '\n', SIZE);
	for (size_t len = 0; len < 300; len++)
		assert_int_equal(sweep_count(text, len, '\n'), len);
	assert_int_equal(sweep_count(text, SIZE, '\n'), SIZE);
	assert_int_equal(sweep_count(text + 1, SIZE - 1, 'x'), 0);
	memset(text + 100, 'x', 5000);
	assert_int_equal(sweep_count(text, SIZE, '\n'), SIZE - 5000);
}

static void
check_look(void **state)
{
	char full[200];

	memset(full, 'a', sizeof(full));
	for (size_t len = 0, end = 0; len < 200; len += end, end = !end) {
		char *text = place_alone(full, len, end != 0);
		struct sweep_seen seen;

		seen = sweep_look(text, len);
		assert_false(seen.nul || seen.high);
		assert_int_equal(sweep_ascii(text, len), len);
		for (size_t i = 0; i < len; i++) {
			text[i] = '\0';
			seen = sweep_look(text, len);
			assert_true(seen.nul && !seen.high);
			text[i] = (char)0x80;
			seen = sweep_look(text, len);
			assert_true(!seen.nul && seen.high);
			assert_int_equal(sweep_ascii(text, len), i);
			text[i] = 'a';
		}
	}
}

static const struct {
	const char *label, *text;
	bool want;
} utf8[] = {
	{ "utf-8: empty", "", true },
	{ "utf-8: ASCII", "abc\n", true },
	{ "utf-8: two, three and four bytes", "\xc2\x80\xe0\xa0\x80\xf0\x90\x80\x80", true },
	{ "utf-8: the last of each", "\xdf\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf", true },
	{ "utf-8: beside the surrogates", "\xed\x9f\xbf\xee\x80\x80", true },
	{ "utf-8: a surrogate", "\xed\xa0\x80", false },
	{ "utf-8: too long for two", "\xc1\xbf", false },
	{ "utf-8: too long for three", "\xe0\x9f\xbf", false },
	{ "utf-8: too long for four", "\xf0\x8f\xbf\xbf", false },
	{ "utf-8: beyond the last", "\xf4\x90\x80\x80", false },
	{ "utf-8: five bytes", "\xf8\x88\x80\x80\x80", false },
	{ "utf-8: cut off", "a\xe2\x82", false },
	{ "utf-8: ends too early",
	    "\xe2\x82"
	    "a",
	    false },
	{ "utf-8: goes on without beginning", "a\x80", false },
	{ "utf-8: none that could begin", "\xff", false },
};

static void
check_utf8(void **state)
{
	const size_t i = (uintptr_t)*state;
	size_t len = strlen(utf8[i].text);

	for (int end = 0; end < 2; end++)
		assert_int_equal(decode_is_utf8(place_alone(utf8[i].text, len, end != 0), len),
		    utf8[i].want);
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(check_every_place),
		cmocka_unit_test(check_count),
		cmocka_unit_test(check_look),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(utf8) + N_ELEMENTS(others)];
	size_t n = 0;

	CASES(cases, check_case);
	CASES(utf8, check_utf8);
	OTHERS(others);
	return cmocka_run_group_tests_name("literal", tests, NULL, NULL);
}
