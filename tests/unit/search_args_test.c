/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/search_args.c: the command line of a search: which words are options, in which spelling,
 * and what they ask for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/search_args.h"
#include "shared/base/cleanup.h"

#define WORDS_MAX 10

/* As in the program's own table. */
static const struct opt_table *
own_of(char *const *words, size_t n_words)
{
	if (n_words != 2 || strcmp(words[0], "fs") != 0)
		return NULL;
	if (strcmp(words[1], "grep") == 0)
		return &search_grep_options;
	if (strcmp(words[1], "glob") == 0)
		return &search_glob_options;
	return strcmp(words[1], "tree") == 0 ? &search_tree_options : NULL;
}

/* Prints everything that was parsed in one line; defaults are left out. */
static void
describe(char *buf, size_t size, const struct search_args *a, bool terminal)
{
	static const struct {
		unsigned flag;
		const char *name;
	} flags[] = {
		{ KODA_SEARCH_HIDDEN, "hidden" },
		{ KODA_SEARCH_NO_GITIGNORE, "no-gitignore" },
		{ KODA_SEARCH_NO_DOT_IGNORE, "no-dot" },
		{ KODA_SEARCH_NO_EXCLUDE, "no-exclude" },
		{ KODA_SEARCH_NO_GLOBAL, "no-global" },
		{ KODA_SEARCH_NO_PARENTS, "no-parents" },
		{ KODA_SEARCH_NO_REQUIRE_GIT, "no-require-git" },
		{ KODA_SEARCH_MOUNTS, "mounts" },
		{ KODA_SEARCH_GLOB_IGNORE_CASE, "glob-icase" },
		{ KODA_SEARCH_NEWEST, "newest" },
		{ KODA_SEARCH_FIXED, "fixed" },
		{ KODA_SEARCH_IGNORE_CASE, "icase" },
		{ KODA_SEARCH_SMART_CASE, "smart" },
		{ KODA_SEARCH_WORD, "word" },
		{ KODA_SEARCH_WHOLE_LINE, "line" },
		{ KODA_SEARCH_INVERT, "invert" },
		{ KODA_SEARCH_MULTILINE, "multiline" },
		{ KODA_SEARCH_DOTALL, "dotall" },
		{ KODA_SEARCH_TEXT, "text" },
		{ KODA_SEARCH_COUNT, "count" },
		{ KODA_SEARCH_COUNT_MATCHES, "count-matches" },
		{ KODA_SEARCH_FILES, "files" },
		{ KODA_SEARCH_FILES_WITHOUT, "files-without" },
	};
	const struct koda_search_options *o = &a->options;
	struct search_style style = search_args_style(a, terminal, terminal);
	FILE *f;

	buf[0] = '\0';
	f = fmemopen(buf, size, "w");

	assert_non_null(f);
	for (size_t i = 0; i < o->n_patterns; i++)
		fprintf(f, " /%s/", o->patterns[i]);
	for (size_t i = 0; i < o->n_globs; i++)
		fprintf(f, " glob=%s", o->globs[i]);
	for (size_t i = 0; i < o->n_types; i++)
		fprintf(f, " type=%s", o->types[i]);
	for (size_t i = 0; i < o->n_types_not; i++)
		fprintf(f, " type-not=%s", o->types_not[i]);
	for (size_t i = 0; a->paths[i] != NULL; i++)
		fprintf(f, " path=%s", a->paths[i]);
	for (size_t i = 0; i < N_ELEMENTS(flags); i++)
		fprintf(f, "%s%s", o->flags & flags[i].flag ? " " : "",
		    o->flags & flags[i].flag ? flags[i].name : "");
	if (o->before > 0 || o->after > 0)
		fprintf(f, " around=%u,%u", o->before, o->after);
	if (o->max_per_file > 0)
		fprintf(f, " max=%llu", (unsigned long long)o->max_per_file);
	if (o->limit !=
	    (o->kind == KODA_SEARCH_TREE || o->flags & KODA_SEARCH_NEWEST ? 0 : INT64_MAX))
		fprintf(f, " limit=%llu", (unsigned long long)o->limit);
	if (o->max_columns != (o->kind == KODA_SEARCH_GREP ? 65536 : 0))
		fprintf(f, " cut=%u", o->max_columns);
	if (o->max_depth > 0)
		fprintf(f, " depth=%u", o->max_depth);
	if (o->timeout_ms != 86400000)
		fprintf(f, " timeout=%u", o->timeout_ms);
	fprintf(f, "%s%s%s%s%s%s%s%s%s%s%s%s%s", style.colour ? " [colour]" : "",
	    style.escape ? " [escape]" : "", style.heading ? " [heading]" : "",
	    style.line_numbers ? " [lines]" : "", style.column ? " [column]" : "",
	    style.byte_offset ? " [offset]" : "", style.only_matching ? " [only]" : "",
	    style.null ? " [null]" : "", style.separated ? " [separated]" : "",
	    style.names == SEARCH_NAMES_ALWAYS ? " [names]" : "",
	    style.names == SEARCH_NAMES_NEVER ? " [no names]" : "", a->quiet ? " quiet" : "",
	    a->type_list ? " type-list" : "");
	if (style.max_columns > 0)
		fprintf(f, " [%llu columns%s]", (unsigned long long)style.max_columns,
		    style.preview ? " shown" : "");
	assert_int_equal(fclose(f), 0);
}

static const struct {
	const char *label;
	const char *argv[WORDS_MAX]; /* after "fs" */
	bool terminal;
	const char *out; /* or '!' and the error */
} cases[] = {
	/* clang-format off */
	{ "a pattern", { "grep", "foo" }, false, " /foo/" },
	{ "and places", { "grep", "foo", "a", "b" }, false, " /foo/ path=a path=b" },
	{ "a terminal", { "grep", "foo" }, true, " /foo/ [colour] [escape] [heading] [lines]" },
	{ "letters together", { "grep", "-inH", "foo" }, false, " /foo/ icase [lines] [names]" },
	{ "options behind places", { "grep", "foo", "a", "-i", "b", "-w" }, false, " /foo/ path=a path=b icase word" },
	{ "a value in the same word", { "grep", "-A3", "foo" }, false, " /foo/ around=0,3 [separated]" },
	{ "a value in the next word", { "grep", "-A", "3", "foo" }, false, " /foo/ around=0,3 [separated]" },
	{ "a value behind =", { "grep", "--after-context=3", "foo" }, false, " /foo/ around=0,3 [separated]" },
	{ "a value behind a long name", { "grep", "--after-context", "3", "foo" }, false, " /foo/ around=0,3 [separated]" },
	{ "letters and a value", { "grep", "-iB2", "foo" }, false, " /foo/ icase around=2,0 [separated]" },
	{ "-e", { "grep", "-e", "a", "-eb", "--regexp=c", "p" }, false, " /a/ /b/ /c/ path=p" },
	{ "-e with a dash", { "grep", "-e", "-foo" }, false, " /-foo/" },
	{ "--", { "grep", "-i", "--", "-foo", "-v" }, false, " /-foo/ path=-v icase" },
	{ "-v is the command's", { "grep", "-v", "x" }, false, " /x/ invert" },
	{ "-c is the command's", { "grep", "-c", "x" }, false, " /x/ count" },
	{ "cases, the last one counts", { "grep", "-i", "-S", "-s", "x" }, false, " /x/" },
	{ "smart case", { "grep", "-i", "-S", "x" }, false, " /x/ smart" },
	{ "words and lines, the last one counts", { "grep", "-w", "-x", "x" }, false, " /x/ line" },
	{ "lines and words", { "grep", "-x", "-w", "x" }, false, " /x/ word" },
	{ "-n and -N", { "grep", "-n", "-N", "x" }, true, " /x/ [colour] [escape] [heading]" },
	{ "-N and -n", { "grep", "-N", "-n", "x" }, false, " /x/ [lines]" },
	{ "--column means -n", { "grep", "--column", "x" }, false, " /x/ [lines] [column]" },
	{ "but not with -N", { "grep", "--column", "-N", "x" }, false, " /x/ [column]" },
	{ "-H and -I", { "grep", "-H", "-I", "x" }, false, " /x/ [no names]" },
	{ "headings in a pipe", { "grep", "--heading", "x" }, false, " /x/ [heading]" },
	{ "no headings on a terminal", { "grep", "--no-heading", "-N", "x" }, true, " /x/ [colour] [escape]" },
	{ "--color always", { "grep", "--color", "always", "x" }, false, " /x/ [colour]" },
	{ "--color=never", { "grep", "--color=never", "--no-heading", "-N", "x" }, true, " /x/ [escape]" },
	{ "--color auto", { "grep", "--color=always", "--color=auto", "x" }, false, " /x/" },
	{ "-C", { "grep", "-C2", "x" }, false, " /x/ around=2,2 [separated]" },
	{ "-A and -B", { "grep", "-A1", "-B2", "x" }, false, " /x/ around=2,1 [separated]" },
	{ "-C undoes -A and -B", { "grep", "-A1", "-B2", "-C3", "x" }, false, " /x/ around=3,3 [separated]" },
	{ "-A undoes -C", { "grep", "-C3", "-A1", "x" }, false, " /x/ around=0,1 [separated]" },
	{ "-A and -B undo -C", { "grep", "-C3", "-A1", "-B2", "x" }, false, " /x/ around=2,1 [separated]" },
	{ "-C0", { "grep", "-A1", "-C0", "x" }, false, " /x/" },
	{ "--count-matches", { "grep", "--count-matches", "x" }, false, " /x/ count-matches" },
	{ "-c and --count-matches", { "grep", "--count-matches", "-c", "x" }, false, " /x/ count" },
	{ "-co", { "grep", "-co", "x" }, false, " /x/ count-matches [only]" },
	{ "-cU", { "grep", "-cU", "x" }, false, " /x/ multiline count-matches" },
	{ "-v --count-matches", { "grep", "-v", "--count-matches", "x" }, false, " /x/ invert count" },
	{ "-l", { "grep", "-l", "x" }, false, " /x/ files" },
	{ "-lc", { "grep", "-lc", "x" }, false, " /x/ count" },
	{ "-L", { "grep", "-L", "x" }, false, " /x/ files-without" },
	{ "-l and -L", { "grep", "-L", "-l", "x" }, false, " /x/ files" },
	{ "-q", { "grep", "-q", "-c", "x" }, false, " /x/ files quiet" },
	{ "-qL", { "grep", "-qL", "x" }, false, " /x/ files-without quiet" },
	{ "-o -b -0 -a -F", { "grep", "-ob0aF", "x" }, false, " /x/ fixed text [offset] [only] [null]" },
	{ "-m, --limit, -d", { "grep", "-m2", "--limit", "30", "-d", "4", "x" }, false, " /x/ max=2 limit=30 depth=4" },
	{ "-U --multiline-dotall", { "grep", "-U", "--multiline-dotall", "x" }, false, " /x/ multiline dotall" },
	{ "globs and types", { "grep", "-g", "*.c", "-g!x", "-tc", "-T", "py", "x" }, false, " /x/ glob=*.c glob=!x type=c type-not=py" },
	{ "--iglob", { "grep", "--iglob", "*.C", "x" }, false, " /x/ glob=*.C glob-icase" },
	{ "--iglob beside -g", { "grep", "--iglob", "*.C", "-g", "y", "x" }, false, "!--iglob cannot be combined with a case-sensitive --glob: use --glob-case-insensitive for all" },
	{ "--glob-case-insensitive", { "grep", "--iglob", "*.C", "-g", "y", "--glob-case-insensitive", "x" }, false, " /x/ glob=*.C glob=y glob-icase" },
	{ "--hidden", { "grep", "--hidden", "x" }, false, " /x/ hidden" },
	{ "-.", { "grep", "-.", "x" }, false, " /x/ hidden" },
	{ "--no-ignore", { "grep", "--no-ignore", "x" }, false, " /x/ no-gitignore no-dot no-exclude no-global no-parents" },
	{ "--no-ignore-vcs", { "grep", "--no-ignore-vcs", "x" }, false, " /x/ no-gitignore no-exclude no-global" },
	{ "its parts", { "grep", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "x" }, false,
	    " /x/ no-dot no-exclude no-global no-parents no-require-git" },
	{ "-u", { "grep", "-u", "x" }, false, " /x/ no-gitignore no-dot no-exclude no-global no-parents" },
	{ "-uu", { "grep", "-uu", "x" }, false, " /x/ hidden no-gitignore no-dot no-exclude no-global no-parents" },
	{ "-uuu", { "grep", "-uuu", "x" }, false, "!-u may be given at most twice: use --text to search binary files" },
	{ "--mounts", { "grep", "--mounts", "x" }, false, " /x/ mounts" },
	{ "--one-file-system", { "grep", "--mounts", "--one-file-system", "x" }, false, " /x/" },
	{ "-M", { "grep", "-M", "100", "x" }, false, " /x/ [100 columns]" },
	{ "-M above what is cut", { "grep", "-M", "200000", "x" }, false, " /x/ [200000 columns]" },
	{ "-M --max-columns-preview", { "grep", "-M100", "--max-columns-preview", "x" }, false, " /x/ cut=100 [100 columns shown]" },
	{ "-M0", { "grep", "-M0", "x" }, false, " /x/" },
	{ "--type-list", { "grep", "--type-list" }, false, " type-list" },
	{ "--timeout", { "grep", "--timeout", "1.5", "x" }, false, " /x/ timeout=1500" },
	{ "an empty pattern", { "grep", "" }, false, " //" },
	{ "nothing to look for", { "grep", "-i" }, false, "!fs grep needs a REGEX" },
	{ "an unknown letter", { "grep", "-iY", "x" }, false, "!unknown option '-iY'" },
	{ "an unknown name", { "grep", "--smart-csae", "x" }, false, "!unknown option '--smart-csae', did you mean '--smart-case'?" },
	{ "a letter without its value", { "grep", "x", "-A" }, false, "!-A needs a value: N" },
	{ "a name without its value", { "grep", "x", "--glob" }, false, "!--glob needs a value: GLOB" },
	{ "a value too many", { "grep", "--hidden=1", "x" }, false, "!--hidden takes no value" },
	{ "no number", { "grep", "-Ax", "x" }, false, "!--after-context needs a number, not 'x'" },
	{ "a negative number", { "grep", "-m", "-1", "x" }, false, "!--max-count needs a number, not '-1'" },
	{ "too large a number", { "grep", "-A", "9999999999", "x" }, false, "!--after-context must be at most 4294967295" },
	{ "no lines at all", { "grep", "-m0", "x" }, false, "!--max-count must be at least 1" },
	{ "no depth", { "grep", "-d0", "x" }, false, "!--max-depth must be at least 1" },
	{ "no colour of ours", { "grep", "--color", "ansi", "x" }, false, "!--color needs auto, always or never, not 'ansi'" },
	{ "glob", { "glob", "*.c", "src" }, false, " glob=*.c path=src" },
	{ "glob on a terminal", { "glob", "*.c" }, true, " glob=*.c [colour] [escape] [heading] [lines]" },
	{ "glob -i", { "glob", "-i", "*.c" }, false, " glob=*.c glob-icase" },
	{ "glob --newest -0", { "glob", "--newest", "-0", "*.c" }, false, " glob=*.c newest [null]" },
	{ "glob -g", { "glob", "-g", "!x", "*.c" }, false, " glob=*.c glob=!x" },
	{ "glob without a pattern", { "glob" }, false, "!fs glob needs a PATTERN" },
	{ "glob takes no -A", { "glob", "-A3", "*.c" }, false, "!unknown option '-A3'" },
	{ "tree", { "tree" }, false, "" },
	{ "tree -d", { "tree", "-d", "2", "a", "b", "--hidden" }, false, " path=a path=b hidden depth=2" },
	{ "tree takes no -o", { "tree", "-o" }, false, "!unknown option '-o'" },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char *argv[WORDS_MAX + 3] = { (char *)"koda-sandbox", (char *)"fs" };
	char why[ARGS_WHY_MAX] = "", got[1024] = "!";
	const char *name = cases[i].argv[0];
	enum koda_search_kind kind = strcmp(name, "grep") == 0 ? KODA_SEARCH_GREP
	    : strcmp(name, "glob") == 0                        ? KODA_SEARCH_GLOB
							       : KODA_SEARCH_TREE;
	struct search_args parsed = { 0 };
	struct args args;
	int argc = 2;

	while (argc - 2 < WORDS_MAX && cases[i].argv[argc - 2] != NULL) {
		argv[argc] = (char *)cases[i].argv[argc - 2];
		argc++;
	}
	if (args_parse(argc, argv, own_of, &args, why) == 0 &&
	    search_args_read(kind, &args, args.words + 2, &parsed, why) == 0)
		describe(got, sizeof(got), &parsed, cases[i].terminal);
	else
		snprintf(got + 1, sizeof(got) - 1, "%s", why);
	assert_string_equal(got, cases[i].out);
	search_args_done(&parsed);
	args_done(&args);
}

/* Before the name of the command, a letter has its general meaning. */
static void
test_before_the_command(void **state)
{
	char *argv[] = { (char *)"koda-sandbox", (char *)"-v", (char *)"fs", (char *)"grep",
		(char *)"-v", (char *)"--json", (char *)"x", NULL };
	char why[ARGS_WHY_MAX] = "";
	struct args args;

	assert_int_equal(args_parse(7, argv, own_of, &args, why), 0);
	assert_true(args_has(&args, OPT_VERBOSE));
	assert_true(args_has(&args, OPT_JSON));
	assert_int_equal(args.n_own_given, 1);
	args_done(&args);
}

/* A command without options of its own is parsed as before. */
static void
test_other_commands(void **state)
{
	char *argv[] = { (char *)"koda-sandbox", (char *)"fs", (char *)"rm", (char *)"-rv",
		(char *)"grep", NULL };
	char why[ARGS_WHY_MAX] = "";
	struct args args;

	assert_int_equal(args_parse(5, argv, own_of, &args, why), 0);
	assert_true(args_has(&args, OPT_RECURSIVE));
	assert_true(args_has(&args, OPT_VERBOSE));
	assert_int_equal(args.n_own_given, 0);
	assert_int_equal(args.n_words, 3);
	args_done(&args);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + 2] = {
		cmocka_unit_test(test_before_the_command),
		cmocka_unit_test(test_other_commands),
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i + 2] =
		    (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("search_args", tests, NULL, NULL);
}
