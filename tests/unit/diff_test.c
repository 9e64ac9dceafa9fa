/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show/diff.c: what the user is shown of a change, line by line; and for random texts, the
 * change leads from the one to the other.
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
#include "show/diff.h"
#include "tests/kit/cases.h"
#include "tests/kit/sheet.h"

/* clang-format off */
static const struct {
	const char *label, *a, *b, *want;
} cases[] = {
	{ "equal", "a\nb\n", "a\nb\n", "" },
	{ "both empty", "", "", "" },
	{ "new", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n" },
	{ "emptied", "a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n" },
	{ "changed in the middle", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
	    "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n" },
	{ "added at the beginning", "a\n", "b\na\n", "@@ -1,1 +1,2 @@\n+b\n a\n" },
	{ "added at the end", "a\n", "a\nb\n", "@@ -1,1 +1,2 @@\n a\n+b\n" },
	{ "removed at the end", "a\nb\n", "a\n", "@@ -1,2 +1,1 @@\n a\n-b\n" },
	{ "far apart", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
	    "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n" },
	{ "near to each other", "a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
	    "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n" },
	{ "newline at the end", "a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ no newline at the end\n+a\n" },
	{ "what would repaint the question", "a\n", "\033[2Jb\xe2\x80\xae\t\xff\n",
	    "@@ -1,1 +1,1 @@\n-a\n+\\x1b[2Jb\\u{202e}\t\\xff\n" },
	{ "a carriage return", "a\n", "a\r\n", "@@ -1,1 +1,1 @@\n-a\n+a\\x0d\n" },
};
/* clang-format on */

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct sheet t;

	sheet_begin(&t, PAGE_MESSAGE);
	diff_unified(&t.page, cases[i].a, strlen(cases[i].a), cases[i].b, strlen(cases[i].b));
	assert_string_equal(sheet_read(&t), cases[i].want);
	sheet_end(&t);
}

/* Applies the hunks to a: the result must be b. */
static void
apply(const struct sheet *diff, const char *a, const char *b)
{
	const char *p = diff->p, *end = p + diff->len;
	char made[8192];
	size_t n = 0;
	unsigned long at = 1;

	while (p < end) {
		const char *line = p, *next = memchr(p, '\n', (size_t)(end - p));
		size_t len;

		assert_non_null(next);
		p = next + 1;
		len = (size_t)(p - line) - 1;
		if (line[0] == '@') {
			unsigned long from = strtoul(line + 4, NULL, 10);
			const char *comma = memchr(line, ',', len);

			assert_non_null(comma);
			from += comma[1] == '0' && comma[2] == ' ';
			for (; at < from; at++) {
				const char *newline = strchr(a, '\n');

				memcpy(made + n, a, (size_t)(newline - a) + 1);
				n += (size_t)(newline - a) + 1;
				a = newline + 1;
			}
			continue;
		}
		if (line[0] != '+') {
			assert_memory_equal(a, line + 1, len);
			a += len;
			at++;
		}
		if (line[0] != '-') {
			memcpy(made + n, line + 1, len);
			n += len;
		}
	}
	strcpy(made + n, a);
	assert_string_equal(made, b);
}

static void
random_lines(char *out, unsigned lines)
{
	for (unsigned i = 0; i < lines; i++)
		out += sprintf(out, "%c\n", "abcd"[rand() % 4]);
	*out = '\0';
}

static void
leads_there(void **state)
{
	srand(1);
	for (int i = 0; i < 5000; i++) {
		char a[256], b[256];
		struct sheet t;

		random_lines(a, (unsigned)rand() % 40);
		random_lines(b, (unsigned)rand() % 40);
		sheet_begin(&t, PAGE_MESSAGE);
		diff_unified(&t.page, a, strlen(a), b, strlen(b));
		sheet_read(&t);
		apply(&t, a, b);
		sheet_end(&t);
	}
}

static bool
has(struct sheet *t, const char *what)
{
	const char *text = sheet_read(t);

	return memmem(text, t->len, what, strlen(what)) != NULL;
}

/* Too many edits to find the fewest: all lines out, all lines in, and the lines not shown are
 * counted. */
static void
differs_altogether(void **state)
{
	enum { LINES = 20000 };
	char *a = malloc(LINES * 8), *b = malloc(LINES * 8);
	size_t n = 0, m = 0;
	struct sheet t;

	assert_non_null(a);
	assert_non_null(b);
	for (int i = 0; i < LINES; i++) {
		n += (size_t)sprintf(a + n, "a%d\n", i);
		m += (size_t)sprintf(b + m, "b%d\n", i);
	}
	sheet_begin(&t, PAGE_MESSAGE);
	diff_unified(&t.page, a, n, b, m);
	assert_true(has(&t, "@@ -1,20000 +1,20000 @@\n-a0\n-a1\n"));
	assert_true(has(&t, "-a299\n[... 39600 lines are left out here ...]\n+b19900\n"));
	assert_true(has(&t, "+b19999\n"));
	assert_true(t.page.cut);
	sheet_end(&t);
	free(a);
	free(b);
}

static void
long_line(void **state)
{
	char line[ASKED_LINE_MAX + 101];
	struct sheet t;

	memset(line, 'x', sizeof(line));
	sheet_begin(&t, PAGE_MESSAGE);
	diff_added(&t.page, line, sizeof(line), true);
	assert_true(has(&t, "x [... 101 bytes are left out here ...] x"));
	assert_true(has(&t, "x\n\\ no newline"));
	assert_true(t.page.cut);
	sheet_end(&t);
}

/* Empty lines would push what comes after them out of sight. */
static void
empty_lines(void **state)
{
	struct sheet t;

	sheet_begin(&t, PAGE_MESSAGE);
	diff_script(&t.page, "ls\n\n\n\n\n\n \n\t\n\nrm -rf ~");
	assert_true(has(&t, "+ls\n+\n+\n+\n+\n+[4 more empty lines]\n+rm -rf ~\n"));
	assert_false(t.page.cut);
	sheet_end(&t);
}

/* A replacement is shown with the lines that it changes, and their numbers where they are known. */
static void
edits(void **state)
{
	static const struct koda_edit all[] = {
		{ .old_text = "one\ntwo\n", .old_len = 8, .new_text = "one\n2\n3\n", .new_len = 8 },
		{ .old_text = "x", .old_len = 1, .new_text = "x\n", .new_len = 2, .all = true },
		{ .old_text = "gone", .old_len = 4 },
	};
	static const uint64_t lines[] = { 2, 9, 0 };
	static const char *const want[PAGE_STYLES] = {
		[PAGE_TERMINAL] = "@@ once, in line 2 @@\n"
				  "      2   one\n"
				  "      3 - two\n"
				  "      3 + 2\n"
				  "      4 + 3\n"
				  "@@ each occurrence, the first in line 9 @@\n"
				  "      9 - x\n"
				  "      9 + x\n"
				  "        (the old text ends without a newline)\n"
				  "@@ once @@\n"
				  "        - gone\n",
		[PAGE_COLOUR] = "\033[36m@@ once, in line 2 @@\033[0m\n"
				"      2   one\033[0m\n"
				"      3 \033[31m- two\033[0m\n"
				"      3 \033[32m+ 2\033[0m\n"
				"      4 \033[32m+ 3\033[0m\n"
				"\033[36m@@ each occurrence, the first in line 9 @@\033[0m\n"
				"      9 \033[31m- x\033[0m\n"
				"      9 \033[32m+ x\033[0m\n"
				"        (the old text ends without a newline)\n"
				"\033[36m@@ once @@\033[0m\n"
				"        \033[31m- gone\033[0m\n",
		[PAGE_MESSAGE] = "@@ once, in line 2 @@\n"
				 " one\n"
				 "-two\n"
				 "+2\n"
				 "+3\n"
				 "@@ each occurrence, the first in line 9 @@\n"
				 "-x\n"
				 "+x\n"
				 "(the old text ends without a newline)\n"
				 "@@ once @@\n"
				 "-gone\n",
	};

	for (enum page_style style = 0; style < PAGE_STYLES; style++) {
		struct sheet t;

		sheet_begin(&t, style);
		diff_edits(&t.page, all, N_ELEMENTS(all), lines, N_ELEMENTS(lines));
		assert_string_equal(sheet_read(&t), want[style]);
		assert_false(t.page.cut);
		sheet_end(&t);
	}
}

/* What a reader can take in is a limit for all replacements together, not for each. */
static void
many_edits(void **state)
{
	struct koda_edit all[ASKED_LINES_MAX];
	struct sheet t;

	for (size_t i = 0; i < N_ELEMENTS(all); i++)
		all[i] = (struct koda_edit){
			.old_text = "a\n",
			.old_len = 2,
			.new_text = "b\n",
			.new_len = 2,
		};
	sheet_begin(&t, PAGE_MESSAGE);
	diff_edits(&t.page, all, N_ELEMENTS(all), NULL, 0);
	assert_true(has(&t, "[... 400 lines are left out here ...]\n"));
	assert_true(t.page.cut);
	sheet_end(&t);
}

/* Numbers are those of the old text for what goes, of the new one for all else. */
static void
numbers(void **state)
{
	struct sheet t;

	sheet_begin(&t, PAGE_TERMINAL);
	diff_unified(&t.page, "a\nb\nc\n", 6, "b\nc\nd", 5);
	assert_string_equal(sheet_read(&t),
	    "@@ -1,3 +1,3 @@\n"
	    "      1 - a\n"
	    "      1   b\n"
	    "      2   c\n"
	    "      3 + d\n"
	    "        \\ no newline at the end\n");
	sheet_end(&t);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(leads_there),
		cmocka_unit_test(differs_altogether),
		cmocka_unit_test(long_line),
		cmocka_unit_test(empty_lines),
		cmocka_unit_test(edits),
		cmocka_unit_test(many_edits),
		cmocka_unit_test(numbers),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(single)];
	size_t n = 0;

	CASES(cases, check_case);
	OTHERS(single);
	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
