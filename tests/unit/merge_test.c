/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/base/merge.c: three-way merges of texts. Changes in different lines come together, those in
 * the same lines never do; and for random texts: what one side changed alone is what comes out, in
 * whichever order the sides are given, and every line that a side added is in the merged text.
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
#include "shared/base/merge.h"
#include "tests/kit/cases.h"
#include "tests/kit/random.h"

/* clang-format off */
static const struct {
	const char *label, *base, *ours, *theirs;
	const char *want; /* NULL: they overlap */
	unsigned overlaps, line;
} cases[] = {
	{ "nothing changed", "a\nb\n", "a\nb\n", "a\nb\n", "a\nb\n", 0, 0 },
	{ "all empty", "", "", "", "", 0, 0 },
	{ "only ours", "a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\n", "a\nB\nc\n", 0, 0 },
	{ "only theirs", "a\nb\nc\n", "a\nb\nc\n", "a\nb\n", "a\nb\n", 0, 0 },
	{ "both, apart", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", 0, 0 },
	{ "both the same", "a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\n", "a\nX\nc\n", 0, 0 },
	{ "the same line", "a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n", NULL, 1, 2 },
	{ "lines next to each other", "a\nb\nc\n", "X\nb\nc\n", "a\nY\nc\n", NULL, 1, 1 },
	{ "added in one place", "a\n", "a\nx\n", "a\ny\n", NULL, 1, 2 },
	{ "the same added in one place", "a\n", "a\nx\n", "a\nx\n", "a\nx\n", 0, 0 },
	{ "added at both ends", "a\nb\n", "x\na\nb\n", "a\nb\ny\n", "x\na\nb\ny\n", 0, 0 },
	{ "removed and changed", "a\nb\nc\n", "a\nc\n", "a\nB\nc\n", NULL, 1, 2 },
	{ "removed by both", "a\nb\nc\nd\n", "a\nd\n", "a\nd\n", "a\nd\n", 0, 0 },
	{ "emptied and added to", "a\nb\n", "", "a\nb\nc\n", NULL, 1, 1 },
	{ "emptied", "a\nb\n", "", "a\nb\n", "", 0, 0 },
	{ "began with nothing", "", "a\n", "b\n", NULL, 1, 1 },
	{ "no newline at the end", "a\nb", "a\nb", "x\na\nb", "x\na\nb", 0, 0 },
	{ "a newline added at the end", "a\nb\nc", "A\nb\nc", "a\nb\nc\n", "A\nb\nc\n", 0, 0 },
	{ "two newlines at the end", "a\nb", "a\nb\n", "a\nb\nc\n", NULL, 1, 2 },
	{ "two places", "a\nb\nc\nd\n", "X\nb\nc\nY\n", "V\nb\nc\nW\n", NULL, 2, 1 },
	{ "the first overlap is in our lines", "a\nb\nc\nd\n", "1\n2\na\nb\nc\nY\n", "a\nb\nc\nW\n", NULL, 1, 6 },
	{ "what looks like a marker", "a\nb\nc\n", "<<<<<<<\na\nb\nc\n", "a\nb\nc\n>>>>>>>\n",
	    "<<<<<<<\na\nb\nc\n>>>>>>>\n", 0, 0 },
};
/* clang-format on */

static struct merged
merge(const char *base, const char *ours, const char *theirs)
{
	const struct merge_text b = { base, strlen(base) }, o = { ours, strlen(ours) },
				t = { theirs, strlen(theirs) };
	struct merged ret;

	assert_true(merge_texts(&b, &o, &t, &ret));
	return ret;
}

static void
check_text(const struct merged *m, const char *want)
{
	assert_int_equal(m->overlaps, 0);
	assert_int_equal(m->len, strlen(want));
	assert_memory_equal(m->text, want, m->len);
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct merged m = merge(cases[i].base, cases[i].ours, cases[i].theirs);

	assert_int_equal(m.overlaps, cases[i].overlaps);
	assert_int_equal(m.line, cases[i].line);
	if (cases[i].want == NULL)
		assert_null(m.text);
	else
		check_text(&m, cases[i].want);
	free(m.text);
	/* The sides are alike. */
	m = merge(cases[i].base, cases[i].theirs, cases[i].ours);
	assert_int_equal(m.overlaps, cases[i].overlaps);
	if (cases[i].want != NULL)
		check_text(&m, cases[i].want);
	free(m.text);
}

/* ---- random texts ---- */

#define LINES_MAX 30
#define TEXT_SIZE 4096

/* Lines of few letters, so that many are equal. */
static void
make(char *ret)
{
	unsigned n = draw(LINES_MAX);

	*ret = '\0';
	while (n-- > 0)
		sprintf(ret + strlen(ret), "%c\n", 'a' + (char)draw(6));
}

/* Changes some lines; what is added is one of a kind: `who` and a number. */
static unsigned
change(const char *from, char *ret, char who)
{
	unsigned added = 0;

	*ret = '\0';
	for (;;) {
		const char *end = strchr(from, '\n');

		if (draw(8) == 0)
			sprintf(ret + strlen(ret), "%c%u\n", who, added++);
		if (end == NULL)
			return added;
		if (draw(8) != 0)
			strncat(ret, from, (size_t)(end + 1 - from));
		from = end + 1;
	}
}

static void
has_all(const struct merged *m, char who, unsigned added)
{
	char *text = strndup(m->text, m->len);

	for (unsigned i = 0; i < added; i++) {
		char line[16];
		const char *at;

		snprintf(line, sizeof(line), "%c%u\n", who, i);
		at = strstr(text, line);
		if (at == NULL || (at > text && at[-1] != '\n'))
			fail_msg("%.*s is not in\n%s", (int)strlen(line) - 1, line, text);
	}
	free(text);
}

static void
random_texts(void **state)
{
	char base[TEXT_SIZE], ours[TEXT_SIZE], theirs[TEXT_SIZE];
	unsigned clean = 0, overlapping = 0;

	for (unsigned i = 0; i < 20000; i++) {
		unsigned o, t;
		struct merged m, other;

		make(base);
		o = change(base, ours, 'O');
		t = change(base, theirs, 'T');
		m = merge(base, ours, base);
		check_text(&m, ours);
		free(m.text);
		m = merge(base, base, theirs);
		check_text(&m, theirs);
		free(m.text);
		m = merge(base, ours, ours);
		check_text(&m, ours);
		free(m.text);
		m = merge(base, ours, theirs);
		other = merge(base, theirs, ours);
		assert_int_equal(m.overlaps, other.overlaps);
		if (m.overlaps > 0) {
			overlapping++;
			assert_true(m.line >= 1);
		} else {
			clean++;
			assert_int_equal(m.len, other.len);
			assert_memory_equal(m.text, other.text, m.len);
			has_all(&m, 'O', o);
			has_all(&m, 'T', t);
		}
		free(m.text);
		free(other.text);
	}
	/* Neither is rare. */
	assert_true(clean > 1000);
	assert_true(overlapping > 1000);
}

/* Texts that differ everywhere are compared in bounded time, and overlap. */
static void
too_different(void **state)
{
	const size_t n = 100000;
	char *base = malloc(8 * n + 1), *ours = malloc(8 * n + 1), *theirs = malloc(8 * n + 1);
	struct merged m;

	for (size_t i = 0; i < n; i++) {
		sprintf(base + 8 * i, "%07zu\n", i);
		sprintf(ours + 8 * i, "%07zu\n", i + n);
		sprintf(theirs + 8 * i, "%07zu\n", i + 2 * n);
	}
	m = merge(base, ours, theirs);
	assert_int_equal(m.overlaps, 1);
	assert_null(m.text);
	free(base);
	free(ours);
	free(theirs);
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(random_texts),
		cmocka_unit_test(too_different),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(others)];
	size_t n = 0;

	CASES(cases, check_case);
	OTHERS(others);
	return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
