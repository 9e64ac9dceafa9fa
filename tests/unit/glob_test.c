/* SPDX-License-Identifier: Apache-2.0 */
/* search/glob.c: what a glob matches, which globs are invalid, and that none takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "search/braces.h"
#include "search/glob.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

#define NAME GLOB_NAME
#define CASE GLOB_IGNORE_CASE
#define GIT  GLOB_GIT

/* clang-format off */
static const struct {
	const char *label, *glob;
	unsigned flags;
	const char *yes[5], *no[5];
} cases[] = {
	{ "text", "a/b", 0, { "a/b" }, { "a", "b", "a/b/c", "x/a/b", "a/bc" } },
	{ "a name, anywhere", "b", NAME, { "b", "a/b", "a/c/b" }, { "ab", "b/a", "a/bb" } },
	{ "star", "a*b", 0, { "ab", "axb", "abb", "a*b" }, { "a/b", "b", "abc", "xab", "ax/b" } },
	{ "star at the start", "*b", NAME, { "b", "ab", "x/ab" }, { "ba", "b/a" } },
	{ "star at the end", "a*", NAME, { "a", "ab", "x/ab" }, { "ba", "a/b" } },
	{ "star alone", "*", NAME, { "a", "a/b", ".x" }, { NULL } },
	{ "star matches a dot at the start", "*.c", NAME, { ".c", "a.c", "x/.c" }, { "c", "a.c/x" } },
	{ "many stars", "*a*b*c", NAME, { "abc", "xaxbxc", "aabbcc" }, { "acb", "abcd" } },
	{ "star and slash", "*/b", 0, { "a/b", "ab/b" }, { "b", "a/a/b", "a/b/b" } },
	{ "directories at the start", "**/b", 0, { "b", "a/b", "a/c/b" }, { "ab", "b/a" } },
	{ "directories in the middle", "a/**/b", 0, { "a/b", "a/x/b", "a/x/y/b" }, { "ab", "a/xb", "b", "x/a/b", "a/b/c" } },
	{ "directories at the end", "a/**", 0, { "a/b", "a/b/c" }, { "a", "ab", "x/a/b" } },
	{ "directories twice", "**/a/**/b", 0, { "a/b", "x/a/y/b", "a/a/b/b" }, { "b", "a", "b/a" } },
	{ "directories alone", "**", 0, { "a", "a/b" }, { NULL } },
	{ "directories and a name with stars", "**/a*b/c*", 0, { "ab/c", "x/axb/cx" }, { "ab", "ab/x/c" } },
	{ "nothing but directories", "**/**/a", 0, { "a", "x/a", "x/y/a" }, { "b", "a/b" } },
	{ "two stars in a name", "a**b", 0, { "ab", "axxb" }, { "a/b", "ax/b" } },
	{ "two stars before a name", "**a", 0, { "a", "xa" }, { "x/a" } },
	{ "two stars behind text", "a**/b", 0, { "a/b", "ax/b" }, { "ab", "a/x/b" } },
	{ "git: two stars behind text", "a**/b", GIT, { "a/b", "ax/b", "ab", "a/x/b" }, { "b", "x/b" } },
	{ "git: two stars behind text at the end", "x/a**", GIT, { "x/a", "x/ab", "x/a/b", "x/ab/c" }, { "a", "x/b" } },
	{ "git: two stars before an escaped slash", "a/**\\/b", GIT, { "a/x/b", "a/x/y/b" }, { "a/b" } },
	{ "question mark", "a?c", 0, { "abc", "a?c" }, { "ac", "a/c", "abbc" } },
	{ "question mark is a byte", "?", NAME, { "a" }, { "\xc3\xa9", "ab" } },
	{ "two bytes", "??", NAME, { "\xc3\xa9", "ab" }, { "a" } },
	{ "class", "[ab]c", 0, { "ac", "bc" }, { "cc", "abc", "c" } },
	{ "range", "[b-d]", 0, { "b", "c", "d" }, { "a", "e", "-" } },
	{ "negated class", "a[!b]c", 0, { "axc", "a]c" }, { "abc", "a/c", "ac" } },
	{ "negated class with a caret", "[^b]", 0, { "a", "^" }, { "b", "ab" } },
	{ "bracket in a class", "[]a]", 0, { "]", "a" }, { "b", "[" } },
	{ "hyphen at the end of a class", "[a-]", 0, { "a", "-" }, { "b" } },
	{ "hyphen at the start of a class", "[-a]", 0, { "a", "-" }, { "b" } },
	{ "escape in a class", "[\\]a]", 0, { "]", "a" }, { "\\" } },
	{ "escaped hyphen in a class", "[a\\-z]", 0, { "a", "-", "z" }, { "m" } },
	{ "slash in a class", "a[b/]c", 0, { "abc" }, { "a/c" } },
	{ "named class", "[[:digit:]x]", 0, { "5", "x" }, { "a", ":", "[" } },
	{ "named class, negated", "[![:upper:]]", 0, { "a", "5" }, { "A" } },
	{ "no named class", "[[:a]", 0, { "[", ":", "a" }, { "b" } },
	{ "byte above 127 in a class", "[\xc3]\xa9", 0, { "\xc3\xa9" }, { "\xa9" } },
	{ "escape", "\\*\\a", 0, { "*a" }, { "aa", "\\*a" } },
	{ "escaped backslash", "a\\\\b", 0, { "a\\b" }, { "ab" } },
	{ "braces are text", "{a,b}", 0, { "{a,b}" }, { "a", "b" } },
	{ "no case in text", "aB*C", CASE, { "ABC", "abxc" }, { "b" } },
	{ "no case in a class", "[a-c]X", CASE, { "Ax", "cX" }, { "dx" } },
	{ "no case, negated", "[!a]", CASE, { "b", "B" }, { "a", "A" } },
	{ "no case of a name", "make", NAME | CASE, { "MAKE", "x/Make" }, { "makes" } },
	{ "no case of a suffix", "*.C", NAME | CASE, { "a.c", "A.C" }, { "a.cc" } },
	{ "empty component", "a//b", 0, { NULL }, { "a/b", "a" } },
	{ "dots are no way up", "../a", 0, { NULL }, { "a", "x/a" } },
	{ "git: range that ends too soon", "[b-a]", GIT, { "b" }, { "a", "-" } },
};

static const struct {
	const char *label, *glob, *why;
} refused[] = {
	{ "class without an end", "a[b", "no ']'" },
	{ "class without anything", "[]", "no ']'" },
	{ "class that ends with an escape", "[a\\", "no ']'" },
	{ "class that ends with a range", "[a-\\", "no ']'" },
	{ "named class without an end", "[[:alpha:", "no ']'" },
	{ "unknown named class", "[[:foo:]]", "class with an unknown name" },
	{ "range that ends too soon", "[z-a]", "before it begins" },
	{ "backslash at the end", "a\\", "backslash" },
};

static const struct {
	const char *label, *glob, *want; /* NULL: refused */
} braces[] = {
	{ "none", "a", "a " },
	{ "two", "{a,b}", "a b " },
	{ "in the middle", "x{a,b}y", "xay xby " },
	{ "one alternative", "{a}", "a " },
	{ "nested", "{a,b{c,d}}e", "ae bce bde " },
	{ "one behind the other", "{a,b}{c,d}", "ac ad bc bd " },
	{ "an empty alternative", "a{,b}", "a ab " },
	{ "escaped", "\\{a,b\\}", "\\{a,b\\} " },
	{ "escaped inside", "{a\\,b,\\}}", "a\\,b \\} " },
	{ "class", "[{]a,[}]", "[{]a,[}] " },
	{ "class inside", "{[,}],b}", "[,}] b " },
	{ "class with a bracket inside", "{[]}],b}", "[]}] b " },
	{ "comma outside", "a,b", "a,b " },
	{ "closing alone", "a}", "a} " },
	{ "open alone", "a{b", NULL },
	{ "open inside", "{a,{b}", NULL },
	{ "escaped end", "{a\\}", NULL },
	{ "a thousand", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", NULL },
};
/* clang-format on */

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct glob g = GLOB_EMPTY;

	assert_null(glob_compile(cases[i].glob, strlen(cases[i].glob), cases[i].flags, &g));
	for (size_t k = 0; k < 10; k++) {
		const bool want = k < 5;
		const char *path = want ? cases[i].yes[k] : cases[i].no[k - 5];
		const char *slash;

		if (path == NULL)
			continue;
		slash = strrchr(path, '/');
		if (glob_match(&g, path, strlen(path),
			slash != NULL ? (size_t)(slash - path) + 1 : 0) != want)
			fail_msg("%s and %s", cases[i].glob, path);
	}
	glob_done(&g);
}

static void
check_refused(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct glob g = GLOB_EMPTY;
	const char *why = glob_compile(refused[i].glob, strlen(refused[i].glob), 0, &g);

	assert_non_null(why);
	assert_non_null(strstr(why, refused[i].why));
	assert_null(g.program);
}

static const char *
append(void *data, const char *glob, size_t len)
{
	const size_t n = strlen(data);

	memcpy((char *)data + n, glob, len);
	memcpy((char *)data + n + len, " ", 2);
	return NULL;
}

static void
check_braces(void **state)
{
	const size_t i = (uintptr_t)*state;
	char got[32 * BRACES_ALTERNATIVES_MAX] = "";
	const char *why = braces_expand(braces[i].glob, strlen(braces[i].glob), append, got);

	if (braces[i].want == NULL) {
		assert_non_null(why);
	} else {
		assert_null(why);
		assert_string_equal(got, braces[i].want);
	}
}

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void
fill(char *text, size_t size, const char *piece)
{
	size_t n = 0;

	while (n + strlen(piece) < size) {
		memcpy(text + n, piece, strlen(piece));
		n += strlen(piece);
	}
	text[n] = '\0';
}

/* None of these takes quadratic time in the number of stars, let alone more. */
static void
test_never_long(void **state)
{
	static const char *const of_glob[] = { "a*", "*a", "**/a/", "**/*a*/", "*a/", "[a-b]*",
		"?*" };
	static const char *const of_path[] = { "a", "a/", "aaaaaaa/" };
	char glob[1000], path[4000];
	const double start = seconds();

	for (size_t i = 0; i < N_ELEMENTS(of_glob) * N_ELEMENTS(of_path); i++) {
		struct glob g = GLOB_EMPTY;

		fill(glob, sizeof(glob) - 1, of_glob[i / N_ELEMENTS(of_path)]);
		strcat(glob, "X");
		fill(path, sizeof(path) - 2, of_path[i % N_ELEMENTS(of_path)]);
		strcat(path, "a");
		assert_null(glob_compile(glob, strlen(glob), 0, &g));
		assert_false(glob_match(&g, path, strlen(path), 0));
		glob_done(&g);
	}
	assert_true(seconds() - start < 2);
}

static const char *
count(void *data, const char *glob, size_t len)
{
	++*(size_t *)data;
	return NULL;
}

static void
test_brace_bombs(void **state)
{
	static const char *const of[] = { "{a,b}", "{", "{a}", "{,}", "{{a,b},", "{[", "\\{{" };
	char glob[GLOB_BYTES_MAX + 1];
	const double start = seconds();

	for (size_t i = 0; i < N_ELEMENTS(of); i++) {
		size_t n = 0;

		fill(glob, sizeof(glob), of[i]);
		assert_non_null(braces_expand(glob, strlen(glob), count, &n));
		assert_true(n <= BRACES_ALTERNATIVES_MAX);
	}
	assert_true(seconds() - start < 2);
}

static void
test_too_long(void **state)
{
	char glob[GLOB_BYTES_MAX + 2];
	struct glob g = GLOB_EMPTY;
	size_t n = 0;

	fill(glob, sizeof(glob), "a");
	assert_int_equal(strlen(glob), GLOB_BYTES_MAX + 1);
	assert_non_null(glob_compile(glob, strlen(glob), 0, &g));
	assert_non_null(braces_expand(glob, strlen(glob), count, &n));
	assert_null(glob_compile(glob, GLOB_BYTES_MAX, 0, &g));
	glob_done(&g);
	fill(glob, sizeof(glob), "[a]?");
	assert_null(glob_compile(glob, GLOB_BYTES_MAX, 0, &g));
	glob_done(&g);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(refused) + N_ELEMENTS(braces) + 3];
	size_t n = 0;

	CASES(cases, check_case);
	CASES(refused, check_refused);
	CASES(braces, check_braces);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_never_long);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_brace_bombs);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_too_long);
	return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}
