/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/ignore.c: what the rules of an ignore file and the globs of a search mean: which line
 * is a rule, and that the last one decides.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/ignore.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

#define MAX 100000

/* clang-format off */
static const struct {
	const char *label, *text;
	const char *yes[4], *no[4], *keep[3]; /* a slash at the end: a directory */
} cases[] = {
	{ "nothing", "", { NULL }, { "a" }, { NULL } },
	{ "a name, anywhere", "a\n", { "a", "x/a", "a/" }, { "ab", "a/b" }, { NULL } },
	{ "no newline at the end", "b\na", { "a", "b" }, { "c" }, { NULL } },
	{ "comment", "#a\na#b\n", { "a#b" }, { "#a", "a" }, { NULL } },
	{ "escaped hash", "\\#a\n", { "#a" }, { "a" }, { NULL } },
	{ "escaped exclamation mark", "\\!a\n", { "!a" }, { "a" }, { NULL } },
	{ "empty lines", "\n\na\n\n", { "a" }, { "b" }, { NULL } },
	{ "spaces at the end", "a  \n", { "a" }, { "a  " }, { NULL } },
	{ "escaped space at the end", "a\\ \n", { "a " }, { "a" }, { NULL } },
	{ "escaped and bare space", "a\\  \n", { "a " }, { "a", "a  " }, { NULL } },
	{ "spaces inside", "a b\n", { "a b" }, { "a", "b" }, { NULL } },
	{ "spaces at the start", " a\n", { " a" }, { "a" }, { NULL } },
	{ "only spaces", "  \n", { NULL }, { " ", "  ", "a" }, { NULL } },
	{ "tab at the end", "a\t\n", { "a\t" }, { "a" }, { NULL } },
	{ "CR LF", "a\r\nb\r\n", { "a", "b" }, { "a\r" }, { NULL } },
	{ "two CR", "a\r\r\n", { "a\r" }, { "a" }, { NULL } },
	{ "space before CR", "a \r\n", { "a" }, { "a " }, { NULL } },
	{ "byte order mark", "\xef\xbb\xbf" "a\nb\n", { "a", "b" }, { "\xef\xbb\xbf" "a" }, { NULL } },
	{ "mark on a second line", "b\n\xef\xbb\xbf" "a\n", { "b", "\xef\xbb\xbf" "a" }, { "a" }, { NULL } },
	{ "negated", "*.c\n!a.c\n", { "b.c", "x/b.c" }, { "b.h" }, { "a.c", "x/a.c" } },
	{ "last one decides", "!a\na\n!b\nb\n!b\n", { "a" }, { "c" }, { "b" } },
	{ "negated twice", "!!a\n", { NULL }, { "a" }, { "!a" } },
	{ "exclamation mark alone", "!\n", { NULL }, { "!", "a" }, { NULL } },
	{ "directories only", "a/\n", { "a/", "x/a/" }, { "a", "x/a" }, { NULL } },
	{ "directories only, negated", "*\n!*/\n", { "a", "x/a" }, { NULL }, { "a/", "x/a/" } },
	{ "anchored", "/a\n", { "a", "a/" }, { "x/a" }, { NULL } },
	{ "anchored by a slash inside", "x/a\n", { "x/a" }, { "a", "y/x/a" }, { NULL } },
	{ "anchored directory", "/a/\n", { "a/" }, { "a", "x/a/" }, { NULL } },
	{ "slash alone", "/\n", { NULL }, { "a", "a/" }, { NULL } },
	{ "two slashes", "//\n", { NULL }, { "a", "a/" }, { NULL } },
	{ "two slashes at the start", "//a\n", { NULL }, { "a", "x/a" }, { NULL } },
	{ "directories and a name", "**/a\n", { "a", "x/a", "x/y/a" }, { "b" }, { NULL } },
	{ "everything in a directory", "a/**\n", { "a/b", "a/b/c" }, { "a/", "x/a/b" }, { NULL } },
	{ "two stars alone", "**\n", { "a", "a/b" }, { NULL }, { NULL } },
	{ "two stars and a slash", "**/\n", { "a/", "x/a/" }, { "a" }, { NULL } },
	{ "directories in the middle", "a/**/b\n", { "a/b", "a/x/b" }, { "x/a/b" }, { NULL } },
	{ "suffix", "*.tar.gz\n", { "a.tar.gz", ".tar.gz" }, { "a.gz", "tar.gz" }, { NULL } },
	{ "suffix without a dot", "*~\n", { "a~", "x/~" }, { "~a" }, { NULL } },
	{ "suffix below a directory", "a/*.c\n", { "a/x.c" }, { "x.c", "a/b/x.c" }, { NULL } },
	{ "prefix", "a*\n", { "a", "ab", "x/ab" }, { "ba" }, { NULL } },
	{ "braces are text", "{a,b}\n", { "{a,b}" }, { "a", "b" }, { NULL } },
	{ "backslash at the end", "a\\\nb\n", { "b" }, { "a", "a\\" }, { NULL } },
	{ "class without an end", "[a\nb\n", { "b" }, { "a", "[a" }, { NULL } },
	{ "escaped slash at the end", "a\\/\n", { NULL }, { "a", "a/" }, { NULL } },
	{ "invalid UTF-8", "\xff\xfe*\n", { "\xff\xfe" "a" }, { "a" }, { NULL } },
	{ "hash and other rules in order", "*.c\n!a*\na.c\n!*b.c\n", { "a.c", "x.c" }, { NULL }, { "ab.c", "ax" } },
	{ "dot at the end", "*.\n", { "a.", "." }, { "a.b" }, { NULL } },
	{ "dots in a suffix", "*.a.b\n!*.b\n*x.b\n", { "ax.b" }, { "b" }, { "x.a.b", "y.b" } },
};

static const struct {
	const char *label, *glob;
	unsigned flags;
	const char *yes[4], *no[4];
	const char *why; /* refused */
} globs[] = {
	{ "glob of a name", "*.c", 0, { "a.c", "x/a.c" }, { "a.h" }, NULL },
	{ "glob with a slash", "x/*.c", 0, { "x/a.c" }, { "a.c", "y/x/a.c" }, NULL },
	{ "glob from the place on", "/a", 0, { "a" }, { "x/a" }, NULL },
	{ "glob of directories", "a/", 0, { "a/", "x/a/" }, { "a" }, NULL },
	{ "glob with braces", "*.{c,h}", 0, { "a.c", "x/a.h" }, { "a.d", "a.{c,h}" }, NULL },
	{ "a slash inside braces holds them all", "{x/a,b}", 0, { "x/a", "b" }, { "x/b", "a" }, NULL },
	{ "glob without case", "*.C", GLOB_IGNORE_CASE, { "a.c", "a.C" }, { "a.h" }, NULL },
	{ "name without case", "makefile", GLOB_IGNORE_CASE, { "Makefile", "x/MAKEFILE" }, { "make" }, NULL },
	{ "glob that begins with a hash", "#a", 0, { "#a" }, { "a" }, NULL },
	{ "glob that ends with a space", "a ", 0, { "a " }, { "a" }, NULL },
	{ "a glob's two stars behind text", "a**/b", 0, { "ax/b" }, { "a/x/b" }, NULL },
	{ "absolute", "/etc/passwd", 0, { "etc/passwd" }, { "passwd", "x/etc/passwd" }, NULL },
	{ "way up", "../a", 0, { NULL }, { "a", "x/a" }, NULL },
	{ "empty", "", 0, { NULL }, { NULL }, "empty" },
	{ "nothing but an exclamation mark", "!", 0, { NULL }, { NULL }, "empty" },
	{ "nothing but a slash", "/", 0, { NULL }, { NULL }, "empty" },
	{ "open brace", "{a", 0, { NULL }, { NULL }, "no '}'" },
	{ "open bracket", "a/[b", 0, { NULL }, { NULL }, "no ']'" },
	{ "open bracket in braces", "{a,[b}", 0, { NULL }, { NULL }, "no ']'" },
	{ "too many alternatives", "{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}", 0, { NULL }, { NULL },
	    "too many" },
};
/* clang-format on */

static void
ignore_free_at(struct ignore **list)
{
	ignore_free(*list);
}

static enum ignore_verdict
judge(const struct ignore *list, const char *above, const char *asked)
{
	struct ignore_name n;
	char path[512];
	size_t len = (size_t)snprintf(path, sizeof(path), "%s%s", above, asked);
	const bool is_dir = path[len - 1] == '/';
	const char *slash;

	if (is_dir)
		path[--len] = '\0';
	slash = strrchr(path, '/');
	ignore_name_init(&n, path, len, slash != NULL ? (size_t)(slash - path) + 1 : 0, is_dir);
	return ignore_judge(list, &n, strlen(above));
}

/* The same wherever the directory of the rules is. */
static void
expect(const struct ignore *list, const char *asked, enum ignore_verdict want)
{
	static const char *const above[] = { "", "/", "/place/a/" };

	if (asked == NULL)
		return;
	for (size_t i = 0; i < N_ELEMENTS(above); i++) {
		enum ignore_verdict got = judge(list, above[i], asked);

		if (got != want)
			fail_msg("%s below '%s': %d, not %d", asked, above[i], got, want);
	}
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	cleanup(ignore_free_at) struct ignore *list = ignore_new();

	assert_int_equal(ignore_add_file(list, cases[i].text, strlen(cases[i].text), MAX), 0);
	assert_int_equal(ignore_ready(list), 0);
	for (size_t k = 0; k < N_ELEMENTS(cases[i].yes); k++) {
		expect(list, cases[i].yes[k], IGNORE_MATCH);
		expect(list, cases[i].no[k], IGNORE_NONE);
	}
	for (size_t k = 0; k < N_ELEMENTS(cases[i].keep); k++)
		expect(list, cases[i].keep[k], IGNORE_KEEP);
}

static void
check_glob(void **state)
{
	const size_t i = (uintptr_t)*state;
	cleanup(ignore_free_at) struct ignore *list = ignore_new();
	const char *why = ignore_add_glob(list, globs[i].glob, globs[i].flags, MAX);

	if (globs[i].why != NULL) {
		assert_non_null(why);
		assert_non_null(strstr(why, globs[i].why));
		return;
	}
	assert_null(why);
	assert_int_equal(ignore_ready(list), 0);
	assert_true(ignore_has_match(list));
	for (size_t k = 0; k < N_ELEMENTS(globs[i].yes); k++) {
		expect(list, globs[i].yes[k], IGNORE_MATCH);
		expect(list, globs[i].no[k], IGNORE_NONE);
	}
}

static void
test_globs_in_order(void **state)
{
	cleanup(ignore_free_at) struct ignore *list = ignore_new();

	assert_null(ignore_add_glob(list, "!{a,b}.c", 0, MAX));
	assert_false(ignore_has_match(list));
	assert_null(ignore_add_glob(list, "a.*", 0, MAX));
	assert_true(ignore_has_match(list));
	assert_int_equal(ignore_count(list), 3);
	assert_int_equal(ignore_ready(list), 0);
	expect(list, "a.c", IGNORE_MATCH);
	expect(list, "b.c", IGNORE_KEEP);
	expect(list, "c.c", IGNORE_NONE);
}

/* C's strings end at a NUL, and so do git's lines. */
static void
test_nul(void **state)
{
	static const char text[] = "a\0b\nc\n\0d\n";
	cleanup(ignore_free_at) struct ignore *list = ignore_new();

	assert_int_equal(ignore_add_file(list, text, sizeof(text) - 1, MAX), 0);
	assert_int_equal(ignore_ready(list), 0);
	assert_int_equal(ignore_count(list), 2);
	expect(list, "a", IGNORE_MATCH);
	expect(list, "c", IGNORE_MATCH);
	expect(list, "b", IGNORE_NONE);
	expect(list, "d", IGNORE_NONE);
}

static void
test_too_many(void **state)
{
	cleanup(ignore_free_at) struct ignore *list = ignore_new();
	cleanup(ignore_free_at) struct ignore *other = ignore_new();

	assert_int_equal(ignore_add_file(list, "a\nb\n#\nc\n", 9, 3), 0);
	assert_int_equal(ignore_count(list), 3);
	assert_int_equal(ignore_add_file(other, "a\nb\n#\nc\n", 9, 2), -1);
	assert_int_equal(errno, E2BIG);
}

/* Among very many rules of every shape, each is found, and the last one first. */
static void
test_many(void **state)
{
	static const struct {
		const char *rule, *behind_rule, *path, *behind_path;
	} shapes[] = {
		{ "name", "", "q/name", "" },
		{ "*.x", "", "q/a.x", "" },
		{ "/d/p", "", "d/p", "" },
		{ "d/**/*.y", "", "d/e/f/a.y", "" },
		{ "pre", "*", "q/pre", "~" },
	};
	cleanup(ignore_free_at) struct ignore *list = ignore_new();
	char line[64];

	for (size_t i = 0; i < 2000; i++) {
		const size_t shape = i % N_ELEMENTS(shapes);

		snprintf(line, sizeof(line), "%s%zu%s", shapes[shape].rule, i,
		    shapes[shape].behind_rule);
		assert_int_equal(ignore_add_file(list, line, strlen(line), MAX), 0);
		snprintf(line, sizeof(line), "!name%zu\n", i);
		if (i % 3 == 0)
			assert_int_equal(ignore_add_file(list, line, strlen(line), MAX), 0);
	}
	assert_int_equal(ignore_ready(list), 0);
	for (size_t i = 0; i < 2000; i++) {
		const size_t shape = i % N_ELEMENTS(shapes);

		snprintf(line, sizeof(line), "%s%zu%s", shapes[shape].path, i,
		    shapes[shape].behind_path);
		expect(list, line, shape == 0 && i % 3 == 0 ? IGNORE_KEEP : IGNORE_MATCH);
	}
	expect(list, "other", IGNORE_NONE);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(globs) + 4];
	size_t n = 0;

	CASES(cases, check_case);
	CASES(globs, check_glob);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_globs_in_order);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_nul);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_too_many);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_many);
	return cmocka_run_group_tests_name("ignore", tests, NULL, NULL);
}
