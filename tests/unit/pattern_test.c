/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/pattern.c: what is derived from a pattern's text (syntax), which method is
 * chosen for it (plan), what is refused, and that nothing exceeds the limits.
 * tests/property/grep_property_test.c checks that the methods find the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "search/pattern.h"
#include "search/plan.h"
#include "search/syntax.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"
#include "tests/kit/sanitized.h"

/* ---- syntax: the texts of which every match contains one ---- */

static const struct {
	const char *label, *pattern;
	bool ignore_case;
	const char *want; /* separated by '|'; "": none; "?": not understood */
} requirements[] = {
	{ "a text", "foo", false, "foo" },
	{ "escapes", "a\\.b\\x41\\x{42}\\t", false, "a.bAB\t" },
	{ "beyond ASCII", "na\xc3\xafve", false, "na\xc3\xafve" },
	{ "behind something", "\\w+foo", false, "foo" },
	{ "before something", "foo\\s*\\(", false, "foo" },
	{ "the rarer one", "the.*xyzzy.*of", false, "xyzzy" },
	{ "assertions take up no room", "^\\bfoo\\b$", false, "foo" },
	{ "one that may be missing", "foox?bar", false, "bar" },
	{ "one that repeats ends it", "fox+bar", false, "fox" },
	{ "none at all, or more", "xyz*", false, "xy" },
	{ "counted", "a{2}bcd", false, "bcd" },
	{ "counted from none", "x{0,2}bcd", false, "bcd" },
	{ "a group goes on", "f(o)ob(?:ar)", false, "foobar" },
	{ "a group that may be missing", "(?:xyzzy)?bar", false, "bar" },
	{ "a group that repeats", "(?:xyzzy)+a", false, "xyzzy" },
	{ "an alternation", "foo|bar", false, "foo|bar" },
	{ "one in a group", "(foo|bar)\\d", false, "foo|bar" },
	{ "with a better text beside it", "(a|b)xyzzy", false, "xyzzy" },
	{ "one branch without", "foo|\\w", false, "" },
	{ "an empty branch", "foo|", false, "" },
	{ "nine branches are too many", "ab|cd|ef|gh|ij|kl|mn|op|qr", false, "" },
	{ "eight are not", "ab|cd|ef|gh|ij|kl|mn|op", false, "ab|cd|ef|gh|ij|kl|mn|op" },
	{ "looking ahead is of other text", "foo(?=barbarbar)", false, "foo" },
	{ "looking for what is not there", "foo(?!barbarbar)", false, "foo" },
	{ "a class is no text", "[abc]+", false, "" },
	{ "case", "FooBar", true, "FooBar" },
	{ "case, and k and s", "maskbar", true, "bar" },
	{ "case, beyond ASCII", "nax\xc3\xafve", true, "nax" },
	{ "case from here on", "foo(?i)BAR", false, "BAR" },
	{ "case in a group", "(?i:FOOx)y", false, "FOOx" },
	{ "case, but not here", "(?-i:FOO)", true, "FOO" },
	{ "extended", "(?x)foo # bar", false, "?" },
	{ "a verb", "foo(*SKIP)bar", false, "?" },
	{ "a recursion", "foo(?R)?", false, "?" },
	{ "a condition", "(a)?(?(1)foo|bar)", false, "?" },
	{ "quoted", "\\Qfoo\\E+", false, "?" },
	{ "the subject's own ends", "\\Afoo\\z", false, "?" },
	{ "\\K", "foo\\Kbar", false, "?" },
	{ "a comment", "fo(?#x)*o", false, "?" },
	{ "a class that only looks like one", "[[:<:]]foo", false, "?" },
	{ "longer than is looked for",
	    "0123456789012345678901234567890123456789012345678901234567890123456789", false,
	    "0123456789012345678901234567890123456789012345678901234567890123" },
};

static void
check_required(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct syntax_options options = { .ignore_case = requirements[i].ignore_case };
	struct syntax s;
	char got[TEXTS_MAX * (LITERAL_MAX + 1) + 1] = "";

	assert_int_equal(syntax_read(requirements[i].pattern, strlen(requirements[i].pattern),
			     &options, &s),
	    0);
	for (size_t k = 0; k < s.required.n; k++) {
		strcat(got, k > 0 ? "|" : "");
		strncat(got, s.required.text[k].text, s.required.text[k].len);
	}
	assert_string_equal(s.unknown ? "?" : got, requirements[i].want);
	syntax_done(&s);
}

/* ---- syntax: nothing matches the end of a line ---- */

static const struct {
	const char *label, *pattern, *want; /* NULL: not understood */
} within[] = {
	{ "dot", "a.b", "a.b" },
	{ "dot for all", "(?s)a.b", "(?s)a\\Nb" },
	{ "dot for all, here alone", "(?s:.).", "(?s:\\N)." },
	{ "\\s", "a\\s+b", "a[^\\S\\n]+b" },
	{ "\\W \\D \\H \\v", "\\W\\D\\H\\v", "[^\\w\\n][^\\d\\n][^\\h\\n][^\\V\\n]" },
	{ "\\S \\w \\d \\h \\V \\N", "\\S\\w\\d\\h\\V\\N", "\\S\\w\\d\\h\\V\\N" },
	{ "a class that is negated", "[^a]", "[^\\na]" },
	{ "that has a ']' first", "[^]a]", "[^\\n\\]a]" },
	{ "and as a range", "[^]-a]", NULL },
	{ "that has a '-' first", "[^-a]", "[^\\n\\-a]" },
	{ "and as a range", "[^--a]", "[^\\n\\--a]" },
	{ "']' first", "[]a]", "[\\]a]" },
	{ "\\s in a class", "[\\s,]", "[\\x0b\\f\\r\\x85\\p{Zl}\\p{Zp}\\h,]" },
	{ "and '-' behind it", "[\\s-x]", "[\\x0b\\f\\r\\x85\\p{Zl}\\p{Zp}\\h-x]" },
	{ "\\W in a class", "[\\W,]", NULL },
	{ "\\W in one that is negated", "[^\\W,]", "[^\\n\\W,]" },
	{ "a range over it", "[\\x00- ]", NULL },
	{ "a range beside it", "[ -~]", "[ -~]" },
	{ "white space by name", "[[:space:]]", NULL },
	{ "letters by name", "[[:alpha:]_]", "[[:alpha:]_]" },
	{ "a property without it", "\\p{Lu}\\pN", "\\p{Lu}\\pN" },
	{ "a property that may hold it", "\\p{Common}", NULL },
	{ "all but a property", "\\PL", NULL },
	{ "in a class, negated", "[^\\PL]", "[^\\n\\PL]" },
	{ "looking back", "(?<!\\s)a", "(?<![^\\S\\n])a" },
};

static void
check_within(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct syntax_options options = { .ignore_case = false };
	struct syntax s;

	assert_int_equal(syntax_read(within[i].pattern, strlen(within[i].pattern), &options, &s),
	    0);
	assert_int_equal(s.unknown, within[i].want == NULL);
	if (within[i].want != NULL) {
		assert_int_equal(s.within_len, strlen(within[i].want));
		assert_memory_equal(s.within, within[i].want, s.within_len);
	}
	syntax_done(&s);
}

/* ---- the chosen method ---- */

static const struct {
	const char *label, *pattern;
	unsigned flags;
	enum plan_way want;
} ways[] = {
	{ "way: a text", "foo", 0, PLAN_TEXT },
	{ "way: a text with signs", "f(o", KODA_SEARCH_FIXED, PLAN_TEXT },
	{ "way: a text, whatever case", "foobar", KODA_SEARCH_IGNORE_CASE, PLAN_TEXT },
	{ "way: with a k", "fookbar", KODA_SEARCH_IGNORE_CASE, PLAN_CANDIDATES },
	{ "way: a word", "foo", KODA_SEARCH_WORD, PLAN_CANDIDATES },
	{ "way: a text in it", "foo\\d", 0, PLAN_CANDIDATES },
	{ "way: an alternation", "foo|bar", 0, PLAN_CANDIDATES },
	{ "way: no text", "\\d+", 0, PLAN_BUFFER },
	{ "way: a text too common", "\\we\\w", 0, PLAN_BUFFER },
	{ "way: not understood", "\\Afoo", 0, PLAN_LINES },
	{ "way: over lines", "foo\\nbar", KODA_SEARCH_MULTILINE, PLAN_WHOLE },
	{ "way: over lines, or not", "foo\\s+bar", KODA_SEARCH_MULTILINE, PLAN_WHOLE },
	{ "way: never over lines", "foo.bar", KODA_SEARCH_MULTILINE, PLAN_CANDIDATES },
	{ "way: the dot, too", "foo.bar", KODA_SEARCH_MULTILINE | KODA_SEARCH_DOTALL, PLAN_WHOLE },
	{ "way: a dot without lines", "foo.bar", KODA_SEARCH_DOTALL, PLAN_CANDIDATES },
};

static struct grep_options
options_of(const char *const *pattern, unsigned flags)
{
	return (struct grep_options){ .flags = flags,
		.patterns = pattern,
		.n_patterns = 1,
		.max_columns = KODA_SEARCH_COLUMNS };
}

static void
check_way(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct grep_options options = options_of(&ways[i].pattern, ways[i].flags);
	struct koda_error err;
	struct grep_plan plan;

	assert_int_equal(plan_init(&plan, &options, &err), 0);
	assert_int_equal(plan.way, ways[i].want);
	plan_done(&plan);
}

/* ---- what is refused ---- */

static const struct {
	const char *label, *pattern;
	unsigned flags;
	enum koda_code want;
	const char *says;
} refusals[] = {
	{ "a bracket too few", "a(b", 0, KODA_INVALID,
	    "pattern 'a(b': missing closing parenthesis (at byte 3)" },
	{ "a bracket too many", "a)b", 0, KODA_INVALID, "(at byte 1)" },
	{ "behind settings that are on anyway", "(*UTF)(*UCP)a(b", 0, KODA_INVALID,
	    "(at byte 15)" },
	{ "nothing to repeat", "*a", 0, KODA_INVALID, "at byte 0" },
	{ "no UTF-8", "a\xff", 0, KODA_INVALID, "UTF-8" },
	{ "no UTF-8 in a text", "a\xff", KODA_SEARCH_FIXED, KODA_INVALID, "UTF-8" },
	{ "the end of a line", "a\nb", 0, KODA_INVALID, "multiline" },
	{ "the end of a line, escaped", "a\\nb", 0, KODA_INVALID, "multiline" },
	{ "the end of a line by number", "a\\x0ab", 0, KODA_INVALID, "multiline" },
	{ "the end of a line alone in a class", "a[\\n]b", 0, KODA_INVALID, "multiline" },
	{ "the end of a line in a text", "a\nb", KODA_SEARCH_FIXED, KODA_INVALID, "multiline" },
	{ "other line ends", "(*CRLF)a", 0, KODA_INVALID, "settings" },
	{ "any line end", "(*ANYCRLF)a", 0, KODA_INVALID, "settings" },
	{ "NUL ends a line", "(*NUL)a", 0, KODA_INVALID, "settings" },
	{ "a limit of its own", "(*LIMIT_MATCH=4294967295)(a+)+$", 0, KODA_INVALID, "settings" },
	{ "a limit of its own, of depth", "(*LIMIT_DEPTH=4294967295)a", 0, KODA_INVALID,
	    "settings" },
	{ "a limit of its own, of heap", "(*LIMIT_HEAP=4294967295)a", 0, KODA_INVALID, "settings" },
	{ "behind one that is on", "(*UTF)(*LIMIT_MATCH=1)a", 0, KODA_INVALID, "settings" },
	{ "no JIT", "(*NO_JIT)a", 0, KODA_INVALID, "settings" },
	{ "no optimisation", "(*NO_START_OPT)a", 0, KODA_INVALID, "settings" },
	{ "settings further on", "a(*NO_JIT)", 0, KODA_INVALID, "at byte" },
	{ "a callout", "a(?C)b", 0, KODA_INVALID, "callouts" },
	{ "a callout with a text", "(?:a(?C'x')b)+", 0, KODA_INVALID, "callouts" },
	{ "half a character", "a\\Cb", 0, KODA_INVALID, "\\C" },
	{ "\\K where it looks ahead", "(?=ab\\K)", 0, KODA_INVALID, "\\K" },
	{ "a long one is cut",
	    "(0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
	    0, KODA_INVALID, "...'" },
	{ "compiled too large", "(((a{1000}){1000}){1000})", 0, KODA_TOO_LARGE, "too large" },
	{ "compiled too large, by classes", "(([\\x{100}-\\x{200}]{9}){999}){999}", 0,
	    KODA_TOO_LARGE, "too large" },
};

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void
check_refusal(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct grep_options options = options_of(&refusals[i].pattern, refusals[i].flags);
	double begin = seconds();
	struct koda_error err;

	assert_null(pattern_new(&options, &err));
	assert_true(seconds() - begin < 1);
	assert_int_equal(err.code, refusals[i].want);
	if (strstr(err.message, refusals[i].says) == NULL)
		fail_msg("'%s' does not say '%s'", err.message, refusals[i].says);
}

static void
check_nested(void **state)
{
	enum { DEPTH = 100000 };
	cleanup_free char *deep = malloc(2 * DEPTH + 2);
	const char *pattern = deep;
	const struct grep_options options = options_of(&pattern, 0);
	struct koda_error err;

	assert_non_null(deep);
	memset(deep, '(', DEPTH);
	deep[DEPTH] = 'a';
	memset(deep + DEPTH + 1, ')', DEPTH);
	deep[2 * DEPTH + 1] = '\0';
	assert_null(pattern_new(&options, &err));
	assert_int_equal(err.code, KODA_TOO_LARGE);
	/* The maximum depth: the parser of the text goes as deep as PCRE2. */
	memset(deep, '(', SYNTAX_NEST_MAX);
	deep[SYNTAX_NEST_MAX] = 'a';
	memset(deep + SYNTAX_NEST_MAX + 1, ')', SYNTAX_NEST_MAX);
	deep[2 * SYNTAX_NEST_MAX + 1] = '\0';
	{
		struct pattern *p = pattern_new(&options, &err);

		assert_non_null(p);
		pattern_free(p);
	}
}

static void
check_long(void **state)
{
	cleanup_free char *text = malloc(GREP_PATTERN_BYTES_MAX + 2);
	const char *patterns[2] = { text, text };
	struct grep_options options = options_of(patterns, 0);
	struct koda_error err;

	assert_non_null(text);
	memset(text, 'a', GREP_PATTERN_BYTES_MAX + 1);
	text[GREP_PATTERN_BYTES_MAX + 1] = '\0';
	assert_null(pattern_new(&options, &err));
	assert_int_equal(err.code, KODA_TOO_LARGE);
	options.n_patterns = 0;
	assert_null(pattern_new(&options, &err));
	assert_int_equal(err.code, KODA_INVALID);
	/* Too long only together. */
	text[GREP_PATTERN_BYTES_MAX / 2] = '\0';
	options.n_patterns = 2;
	assert_null(pattern_new(&options, &err));
	assert_int_equal(err.code, KODA_TOO_LARGE);
}

/* ---- limits ---- */

static const struct {
	const char *label, *pattern;
	unsigned flags;
	char fill, end; /* the text is many times `fill`, then `end` */
} explosions[] = {
	{ "explodes: nested repeats", "(a+)+$", 0, 'a', 'b' },
	{ "explodes: words", "^(([a-z])+.)+[A-Z]([a-z])+$", 0, 'a', '!' },
	{ "explodes: the same twice", "(a|a)+$", 0, 'a', 'b' },
	{ "explodes: whatever case", "(a+)+$", KODA_SEARCH_IGNORE_CASE, 'A', 'b' },
	{ "explodes: as a word", "(a+)+", KODA_SEARCH_WORD, 'a', '_' },
	{ "explodes: as a line", "(a+)+", KODA_SEARCH_WHOLE_LINE, 'a', 'b' },
	{ "explodes: over lines", "(a+\\n?)+$", KODA_SEARCH_MULTILINE, 'a', 'b' },
	{ "explodes: not understood", "\\A(a+)+$", 0, 'a', 'b' },
	{ "explodes: in no UTF-8", "(a+)+$", 0, 'a', (char)0xff },
	{ "explodes: beyond ASCII", "(\xc3\xa9|a+)+$", 0, 'a', 'b' },
	{ "explodes: looking ahead", "(?=(a+)+$)a", 0, 'a', 'b' },
	{ "explodes: a recursion", "(a+|(?1)(?1))+$", 0, 'a', 'b' },
};

static void
explode(size_t i, size_t len)
{
	const struct grep_options options = options_of(&explosions[i].pattern, explosions[i].flags);
	cleanup_free char *text = malloc(len);
	struct koda_error err = { .code = KODA_OK };
	struct pattern *p = pattern_new(&options, &err);
	double begin = seconds();
	struct pattern_cursor c;
	struct grep_span found;

	assert_non_null(text);
	assert_non_null(p);
	memset(text, explosions[i].fill, len);
	text[len - 1] = explosions[i].end;
	pattern_begin(&c, text, len, (unsigned char)explosions[i].end < 0x80);
	assert_int_equal(pattern_next(p, &c, &found, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_non_null(strstr(err.message, "too many"));
	if (!SANITIZED)
		assert_true(seconds() - begin < 1);
	assert_int_equal(pattern_ticks(p), 0);
	pattern_free(p);
}

static void
check_explosion(void **state)
{
	const size_t i = (uintptr_t)*state;

	explode(i, 40);
	explode(i, 5000);
	explode(i, 250000);
}

/* Several patterns, each with groups of its own. */
static void
check_several(void **state)
{
	static const char text[] = "aa bb xyzxyz cc (x) )";
	const char *patterns[] = { "(a)\\1", "(b)\\1", "(?<n>x)y(z)\\g{n}yz", "(?x) \\(x # open" };
	struct grep_options options = options_of(patterns, 0);
	struct koda_error err;
	struct pattern_cursor c;
	struct grep_span found;
	struct pattern *p;
	char got[64] = "";

	options.n_patterns = N_ELEMENTS(patterns);
	p = pattern_new(&options, &err);
	assert_non_null(p);
	pattern_begin(&c, text, strlen(text), true);
	while (pattern_next(p, &c, &found, &err) > 0)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%zu-%zu ", found.start,
		    found.end);
	assert_string_equal(got, "0-2 3-5 6-12 16-18 ");
	pattern_free(p);
	/* Patterns that would be complete only together are refused. */
	patterns[0] = "a(";
	patterns[1] = "b)";
	options.n_patterns = 2;
	assert_null(pattern_new(&options, &err));
	assert_int_equal(err.code, KODA_INVALID);
}

/* ---- case ---- */

static const struct {
	const char *label, *pattern, *text;
	unsigned flags;
	bool want;
} smart[] = {
	{ "smart: lower case", "foo", "FOO", KODA_SEARCH_SMART_CASE, true },
	{ "smart: upper case", "Foo", "foo", KODA_SEARCH_SMART_CASE, false },
	{ "smart: an escape is none", "\\Wfoo", "-FOO", KODA_SEARCH_SMART_CASE, true },
	{ "smart: a property is none", "\\p{Lu}oo", "FOO", KODA_SEARCH_SMART_CASE, true },
	{ "smart: a group's name is none", "(?<N>f)oo", "FOO", KODA_SEARCH_SMART_CASE, true },
	{ "smart: beyond ASCII", "\xc3\x89", "\xc3\xa9", KODA_SEARCH_SMART_CASE, false },
	{ "smart: in a text an escape is none", "\\W", "\\w",
	    KODA_SEARCH_SMART_CASE | KODA_SEARCH_FIXED, false },
	{ "smart: asked not to look at case", "Foo", "fOO",
	    KODA_SEARCH_SMART_CASE | KODA_SEARCH_IGNORE_CASE, true },
	{ "case: the Kelvin sign", "k", "\xe2\x84\xaa", KODA_SEARCH_IGNORE_CASE, true },
	{ "case: the long s", "mas", "ma\xc5\xbf", KODA_SEARCH_IGNORE_CASE, true },
	{ "case: the long s in the pattern", "\xc5\xbf", "S", KODA_SEARCH_IGNORE_CASE, true },
	{ "case: Greek sigma", "\xcf\x83", "\xcf\x82", KODA_SEARCH_IGNORE_CASE, true },
	{ "case: only by ASCII's bit", "[", "{", KODA_SEARCH_IGNORE_CASE | KODA_SEARCH_FIXED,
	    false },
};

static void
check_smart(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct grep_options options = options_of(&smart[i].pattern, smart[i].flags);
	struct koda_error err;
	struct pattern *p = pattern_new(&options, &err);
	struct pattern_cursor c;
	struct grep_span found;

	assert_non_null(p);
	pattern_begin(&c, smart[i].text, strlen(smart[i].text), false);
	assert_int_equal(pattern_next(p, &c, &found, &err), smart[i].want);
	pattern_free(p);
}

#define ADD(table, check)                                                                          \
	for (size_t i = 0; i < N_ELEMENTS(table); i++)                                             \
		tests[n++] = (struct CMUnitTest)                                                   \
		{                                                                                  \
			(table)[i].label, check, NULL, NULL, (void *)i                             \
		}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(check_nested),
		cmocka_unit_test(check_long),
		cmocka_unit_test(check_several),
	};
	struct CMUnitTest tests[N_ELEMENTS(requirements) + N_ELEMENTS(within) + N_ELEMENTS(ways) +
	    N_ELEMENTS(refusals) + N_ELEMENTS(explosions) + N_ELEMENTS(smart) + N_ELEMENTS(others)];
	size_t n = 0;

	ADD(requirements, check_required);
	ADD(within, check_within);
	ADD(ways, check_way);
	ADD(refusals, check_refusal);
	ADD(explosions, check_explosion);
	ADD(smart, check_smart);
	OTHERS(others);
	return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
