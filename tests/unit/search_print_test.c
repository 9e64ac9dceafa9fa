/* SPDX-License-Identifier: Apache-2.0 */
/* cli/search_print.c: search results as text: the bytes, and the separators between two results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/search_print.h"
#include "shared/base/cleanup.h"

#define FOUND_MAX 6

#define RED  "\033[0m\033[1m\033[31m"
#define PATH "\033[0m\033[35m"
#define LINE "\033[0m\033[32m"
#define NUM  "\033[0m"
#define OFF  "\033[0m"

#define SPANS(...)                                                                                 \
	.spans = (const struct koda_span[]){ __VA_ARGS__ },                                        \
	.n_spans = sizeof((const struct koda_span[]){ __VA_ARGS__ }) / sizeof(struct koda_span)
#define TEXT(s)               .text = (s), .len = sizeof(s) - 1
#define MATCH(file, number)   .kind = KODA_FOUND_MATCH, .path = (file), .line = (number)
#define CONTEXT(file, number) .kind = KODA_FOUND_CONTEXT, .path = (file), .line = (number)

static const struct {
	const char *label;
	struct search_style style;
	const char *operands[3];
	struct koda_found found[FOUND_MAX]; /* up to the first without a kind */
	const char *out;
	size_t out_len; /* 0: as long as the string */
} cases[] = {
	/* clang-format off */
	{ "a line below the current directory", { 0 }, { NULL },
	    { { MATCH("d/a", 3), TEXT("foo"), SPANS({ 0, 3 }) } }, "d/a:foo\n", 0 },
	{ "below an operand", { 0 }, { "x" },
	    { { MATCH("d/a", 3), TEXT("foo") } }, "x/d/a:foo\n", 0 },
	{ "below an operand with its slash", { 0 }, { "x/" },
	    { { MATCH("a", 3), TEXT("foo") } }, "x/a:foo\n", 0 },
	{ "the only operand is a file", { 0 }, { "x" },
	    { { MATCH("", 3), TEXT("foo") } }, "foo\n", 0 },
	{ "one of two operands is a file", { 0 }, { "x", "y" },
	    { { MATCH("", 3), TEXT("foo"), .place = 1 } }, "y:foo\n", 0 },
	{ "-H", { .names = SEARCH_NAMES_ALWAYS }, { "x" },
	    { { MATCH("", 3), TEXT("foo") } }, "x:foo\n", 0 },
	{ "-I", { .names = SEARCH_NAMES_NEVER }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") } }, "foo\n", 0 },
	{ "-n --column -b", { .line_numbers = true, .column = true, .byte_offset = true }, { NULL },
	    { { MATCH("a", 3), TEXT("a foo"), .offset = 40, SPANS({ 2, 5 }) },
	      { CONTEXT("a", 4), TEXT("bar"), .offset = 46 } },
	    "a:3:3:40:a foo\na-4-46-bar\n", 0 },
	{ "--column of an inverted match", { .column = true }, { NULL },
	    { { MATCH("a", 3), TEXT("bar") } }, "a:bar\n", 0 },
	{ "--column of a cut line", { .column = true, .byte_offset = true }, { NULL },
	    { { MATCH("a", 3), TEXT("a foo"), .offset = 40, .cut_before = 100, SPANS({ 2, 5 }) } },
	    "a:103:40:[... 100 bytes] a foo\n", 0 },
	{ "a cut line", { 0 }, { NULL },
	    { { MATCH("a", 3), TEXT("foo"), .cut_before = 1, .cut_after = 20 } },
	    "a:[... 1 bytes] foo [... 20 bytes]\n", 0 },
	{ "-o", { .only_matching = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo bar foo"), SPANS({ 0, 3 }, { 8, 11 }) },
	      { CONTEXT("a", 4), TEXT("bar") } },
	    "a:foo\na:foo\na-bar\n", 0 },
	{ "-o --column -b", { .only_matching = true, .column = true, .byte_offset = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo bar foo"), .offset = 10, .cut_before = 5, SPANS({ 0, 3 }, { 8, 11 }) } },
	    "a:6:15:foo\na:14:23:foo\n", 0 },
	{ "-o of an empty match", { .only_matching = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo"), SPANS({ 0, 0 }) } }, "a:\n", 0 },
	{ "-o of an inverted match", { .only_matching = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") } }, "a:foo\n", 0 },
	{ "-0", { .null = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") } }, "a\0foo\n", 6 },
	{ "NUL in the text", { 0 }, { "x" },
	    { { MATCH("", 3), TEXT("f\0o") } }, "f\0o\n", 4 },
	{ "an empty line", { 0 }, { NULL }, { { MATCH("a", 3), TEXT("") } }, "a:\n", 0 },
	/* groups */
	{ "context without a gap", { .separated = true }, { NULL },
	    { { CONTEXT("a", 2), TEXT("x") }, { MATCH("a", 3), TEXT("foo") } }, "a-x\na:foo\n", 0 },
	{ "context with a gap", { .separated = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") }, { MATCH("a", 5), TEXT("foo") } }, "a:foo\n--\na:foo\n", 0 },
	{ "a gap without context", { 0 }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") }, { MATCH("a", 5), TEXT("foo") } }, "a:foo\na:foo\n", 0 },
	{ "context and another file", { .separated = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") }, { MATCH("b", 4), TEXT("foo") } }, "a:foo\n--\nb:foo\n", 0 },
	{ "the same path below another operand", { .separated = true }, { "x", "y" },
	    { { MATCH("a", 3), TEXT("foo") }, { MATCH("a", 4), TEXT("foo"), .place = 1 } },
	    "x/a:foo\n--\ny/a:foo\n", 0 },
	{ "headings", { .heading = true, .line_numbers = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") }, { MATCH("a", 5), TEXT("bar") }, { MATCH("b", 1), TEXT("foo") } },
	    "a\n3:foo\n5:bar\n\nb\n1:foo\n", 0 },
	{ "headings and context", { .heading = true, .separated = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") }, { CONTEXT("a", 5), TEXT("bar") }, { MATCH("b", 1), TEXT("foo") } },
	    "a\nfoo\n--\nbar\n\nb\nfoo\n", 0 },
	{ "headings and -0", { .heading = true, .null = true }, { NULL },
	    { { MATCH("a", 3), TEXT("foo") } }, "a\0foo\n", 6 },
	{ "a heading for the only file", { .heading = true }, { "x" },
	    { { MATCH("", 3), TEXT("foo") } }, "foo\n", 0 },
	/* other things */
	{ "files", { 0 }, { "x" },
	    { { .kind = KODA_FOUND_FILE, .path = "a" }, { .kind = KODA_FOUND_FILE, .path = "" } }, "x/a\nx\n", 0 },
	{ "files, -0", { .null = true }, { NULL },
	    { { .kind = KODA_FOUND_FILE, .path = "a" }, { .kind = KODA_FOUND_FILE, .path = "b" } }, "a\0b\0", 4 },
	{ "files, headings and context", { .heading = true, .separated = true }, { NULL },
	    { { .kind = KODA_FOUND_FILE, .path = "a" }, { .kind = KODA_FOUND_FILE, .path = "b" } }, "a\nb\n", 0 },
	{ "counts", { 0 }, { NULL },
	    { { .kind = KODA_FOUND_COUNT, .path = "a", .count = 12 } }, "a:12\n", 0 },
	{ "the count of the only file", { 0 }, { "x" },
	    { { .kind = KODA_FOUND_COUNT, .path = "", .count = 12 } }, "12\n", 0 },
	{ "counts, -0", { .null = true }, { NULL },
	    { { .kind = KODA_FOUND_COUNT, .path = "a", .count = 1 } }, "a\0" "1\n", 4 },
	{ "a binary file", { .null = true }, { "x", "y" },
	    { { .kind = KODA_FOUND_BINARY, .path = "", .offset = 9 } },
	    "x: binary file matches (found \"\\0\" byte around offset 9)\n", 0 },
	{ "the only file is binary", { 0 }, { "x" },
	    { { .kind = KODA_FOUND_BINARY, .path = "", .offset = 9 } },
	    "binary file matches (found \"\\0\" byte around offset 9)\n", 0 },
	{ "a binary file among headings", { .heading = true }, { "x", "y" },
	    { { MATCH("", 1), TEXT("foo") }, { .kind = KODA_FOUND_BINARY, .path = "", .place = 1 }, { MATCH("a", 1), TEXT("foo") } },
	    "x\nfoo\ny: binary file matches (found \"\\0\" byte around offset 0)\n\nx/a\nfoo\n", 0 },
	{ "trouble is for others", { 0 }, { NULL },
	    { { .kind = KODA_FOUND_TROUBLE, .path = "a", .reason = "no" } }, "", 0 },
	/* long lines */
	{ "-M, short enough", { .max_columns = 4 }, { NULL }, { { MATCH("a", 1), TEXT("foo") } }, "a:foo\n", 0 },
	{ "-M", { .max_columns = 3 }, { NULL },
	    { { MATCH("a", 1), TEXT("foo"), SPANS({ 0, 3 }) }, { CONTEXT("a", 2), TEXT("bar") } },
	    "a:[Omitted long matching line]\na-[Omitted long context line]\n", 0 },
	{ "-M, counted by what was cut", { .max_columns = 5 }, { NULL },
	    { { MATCH("a", 1), TEXT("foo"), .cut_after = 2 } }, "a:[Omitted long matching line]\n", 0 },
	{ "-M --column", { .max_columns = 3, .column = true }, { NULL },
	    { { MATCH("a", 1), TEXT("foofoo"), SPANS({ 0, 3 }, { 3, 6 }) } },
	    "a:1:[Omitted long line with 2 matches]\n", 0 },
	{ "-M -o", { .max_columns = 3, .only_matching = true }, { NULL },
	    { { MATCH("a", 1), TEXT("foo oofo"), SPANS({ 0, 3 }, { 4, 8 }) } },
	    "a:foo\na:[Omitted long matching line]\n", 0 },
	{ "-M --max-columns-preview", { .max_columns = 3, .preview = true }, { NULL },
	    { { MATCH("a", 1), TEXT("foo"), .cut_after = 9 } }, "a:foo [... 9 bytes]\n", 0 },
	/* colours */
	{ "colours", { .colour = true, .line_numbers = true, .column = true, .byte_offset = true }, { NULL },
	    { { MATCH("a", 1), TEXT("a foo b foo"), SPANS({ 2, 5 }, { 8, 11 }) }, { CONTEXT("a", 2), TEXT("b") } },
	    PATH "a" OFF ":" LINE "1" OFF ":" NUM "3" OFF ":" NUM "0" OFF ":a " RED "foo" OFF " b " RED "foo" OFF "\n"
	    PATH "a" OFF "-" LINE "2" OFF "-" NUM "0" OFF "-b\n", 0 },
	{ "colours of matches that touch", { .colour = true }, { "x" },
	    { { MATCH("", 1), TEXT("foofoo b"), SPANS({ 0, 3 }, { 3, 6 }) } }, RED "foofoo" OFF " b\n", 0 },
	{ "colours of empty matches", { .colour = true }, { "x" },
	    { { MATCH("", 1), TEXT("bar"), SPANS({ 0, 0 }, { 1, 1 }, { 3, 3 }) } }, "bar\n", 0 },
	{ "colours of -o", { .colour = true, .only_matching = true }, { "x" },
	    { { MATCH("", 1), TEXT("bar"), SPANS({ 0, 0 }, { 1, 3 }) } }, "\n" RED "ar" OFF "\n", 0 },
	{ "colours of files and counts", { .colour = true }, { NULL },
	    { { .kind = KODA_FOUND_FILE, .path = "a" }, { .kind = KODA_FOUND_COUNT, .path = "a", .count = 1 } },
	    PATH "a" OFF "\n" PATH "a" OFF ":1\n", 0 },
	{ "colours of a path in two parts", { .colour = true }, { "x" },
	    { { .kind = KODA_FOUND_FILE, .path = "a" } }, PATH "x/a" OFF "\n", 0 },
	/* a person's terminal */
	{ "what acts on a terminal, in a pipe", { 0 }, { NULL },
	    { { MATCH("a\n", 1), TEXT("\033]0;x\a\r") } }, "a\n:\033]0;x\a\r\n", 0 },
	{ "what acts on a terminal, on one", { .escape = true }, { NULL },
	    { { MATCH("a\n\033[2J", 1), TEXT("\033]0;x\a\xe2\x80\xae" "b\xff\t.") } },
	    "a\\x0a\\x1b[2J:\\x1b]0;x\\x07\\u{202e}b\\xff\t.\n", 0 },
	{ "an operand on a terminal", { .escape = true }, { "\033" },
	    { { .kind = KODA_FOUND_FILE, .path = "a" } }, "\\x1b/a\n", 0 },
	{ "a match on a terminal", { .escape = true, .colour = true }, { "x" },
	    { { MATCH("", 1), TEXT("a\033b"), SPANS({ 0, 2 }) } }, RED "a\\x1b" OFF "b\n", 0 },
	{ "the end of a line as Windows has it, on a terminal", { .escape = true }, { "x" },
	    { { MATCH("", 1), TEXT("a\rb\r") } }, "a\\x0db\r\n", 0 },
	{ "a match of it", { .escape = true }, { "x" },
	    { { MATCH("", 1), TEXT("a\r"), SPANS({ 1, 2 }) } }, "a\\x0d\n", 0 },
	/* listings */
	{ "a listing", { 0 }, { NULL },
	    { { .kind = KODA_FOUND_ENTRY, .path = "", .type = KODA_FILE_DIRECTORY, .size = 1234, .files = 2 },
	      { .kind = KODA_FOUND_ENTRY, .path = "d", .type = KODA_FILE_DIRECTORY, .depth = 1, .size = 34, .files = 1 },
	      { .kind = KODA_FOUND_ENTRY, .path = "d/f\n", .type = KODA_FILE_REGULAR, .depth = 2, .size = 34 },
	      { .kind = KODA_FOUND_ENTRY, .path = "l", .type = KODA_FILE_SYMLINK, .depth = 1 },
	      { .kind = KODA_FOUND_ENTRY, .path = "s", .type = KODA_FILE_OTHER, .depth = 1 } },
	    "        1234  ./  (2 files)\n"
	    "          34    d/  (1 file)\n"
	    "          34      f\\x0a\n"
	    "           0    l  (link)\n"
	    "           0    s  (special)\n", 0 },
	{ "a listing of operands", { 0 }, { "x/", "y/z" },
	    { { .kind = KODA_FOUND_ENTRY, .path = "", .type = KODA_FILE_DIRECTORY },
	      { .kind = KODA_FOUND_ENTRY, .path = "", .type = KODA_FILE_REGULAR, .place = 1 } },
	    "           0  x/  (0 files)\n           0  y/z\n", 0 },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state, size = 0, n = 0;
	size_t want = cases[i].out_len > 0 ? cases[i].out_len : strlen(cases[i].out);
	char *out = NULL;
	struct search_printer printer = { .style = cases[i].style,
		.operands = (const char *const *)cases[i].operands };

	while (n < N_ELEMENTS(cases[i].operands) && cases[i].operands[n] != NULL)
		n++;
	printer.n_operands = n;
	printer.f = open_memstream(&out, &size);
	assert_non_null(printer.f);
	for (size_t j = 0; j < FOUND_MAX && cases[i].found[j].kind != 0; j++)
		assert_int_equal(search_print(&printer, &cases[i].found[j]), 0);
	assert_int_equal(fclose(printer.f), 0);
	if (size != want || memcmp(out, cases[i].out, want) != 0)
		fail_msg("printed: %s", out);
	search_print_done(&printer);
	free(out);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("search_print", tests, NULL, NULL);
}
