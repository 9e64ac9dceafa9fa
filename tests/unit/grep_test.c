/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/grep.c: what it reports of a file, in which order, and what a file can do
 * to it. Real files, without a name.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "search/grep.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"
#include "tests/kit/sanitized.h"

static int
file_of(const void *content, size_t len)
{
	int fd = memfd_create("content", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, len), (ssize_t)len);
	return fd;
}

/* ---- small files ---- */

#define I    KODA_SEARCH_IGNORE_CASE
#define V    KODA_SEARCH_INVERT
#define U    KODA_SEARCH_MULTILINE
#define C    KODA_SEARCH_COUNT
#define CM   KODA_SEARCH_COUNT_MATCHES
#define L    KODA_SEARCH_FILES
#define TEXT KODA_SEARCH_TEXT

struct question {
	const char *pattern;
	unsigned flags, before, after, max, columns;
	bool walked; /* found by a walk, not named */
};

#define Q(...)                                                                                     \
	{                                                                                          \
		.pattern = __VA_ARGS__                                                             \
	}
#define BYTES(text) text, sizeof(text) - 1

/* want: one line for each reported line: "NUMBER@OFFSET:text" for a match, with '-' for context,
 * "[start,end)" for each span, "<n" and ">n" for what was cut; then the totals of the file. */
static const struct {
	const char *label;
	struct question q;
	const char *content;
	size_t len;
	const char *want;
} cases[] = {
	{ "a line", Q("b"), BYTES("abc\n"), "1@0:abc[1,2)\nmatches 1\n" },
	{ "no line", Q("x"), BYTES("abc\n"), "matches 0\n" },
	{ "an empty file", Q(""), BYTES(""), "matches 0\n" },
	{ "nothing in an empty line", Q(""), BYTES("\n"), "1@0:[0,0)\nmatches 1\n" },
	{ "no end of the last line", Q("c"), BYTES("a\nc"), "2@2:c[0,1)\nmatches 1\n" },
	{ "an empty last line", Q("^$"), BYTES("a\n\n"), "2@2:[0,0)\nmatches 1\n" },
	{ "no line behind the last", Q("^$"), BYTES("a\n"), "matches 0\n" },
	{ "several in a line", Q("a"), BYTES("banana\n"),
	    "1@0:banana[1,2)[3,4)[5,6)\nmatches 1\n" },
	{ "some of them empty", Q("x*"), BYTES("axb\n"), "1@0:axb[0,0)[1,2)[3,3)\nmatches 1\n" },
	{ "the beginning of each line", Q("^a"), BYTES("a\nba\naa\n"),
	    "1@0:a[0,1)\n3@5:aa[0,1)\nmatches 2\n" },
	{ "the end of each line", Q("a$"), BYTES("a\nab\nba\n"),
	    "1@0:a[0,1)\n3@5:ba[1,2)\nmatches 2\n" },
	{ "CR is part of the line", Q("a$"), BYTES("a\r\na\n"), "2@3:a[0,1)\nmatches 1\n" },
	{ "CR is told", Q("a"), BYTES("a\r\n"), "1@0:a\\x0d[0,1)\nmatches 1\n" },
	{ "CR is white space", Q("a\\s$"), BYTES("a\r\n"), "1@0:a\\x0d[0,2)\nmatches 1\n" },
	{ "not over lines", Q("a\\s*b"), BYTES("a\nb\na b\n"), "3@4:a b[0,3)\nmatches 1\n" },
	{ "not over lines, negated", Q("a[^x]*b"), BYTES("a\nb\na b\n"),
	    "3@4:a b[0,3)\nmatches 1\n" },
	{ "a word", Q("ab", KODA_SEARCH_WORD), BYTES("abc\nab\nx-ab-x\n_ab\n"),
	    "2@4:ab[0,2)\n3@7:x-ab-x[2,4)\nmatches 2\n" },
	{ "a word that begins with a sign", Q("-ab", KODA_SEARCH_WORD), BYTES("x -ab\nx-ab\n"),
	    "1@0:x -ab[2,5)\nmatches 1\n" },
	{ "a whole line", Q("a|ab", KODA_SEARCH_WHOLE_LINE), BYTES("abc\nab\na\n"),
	    "2@4:ab[0,2)\n3@7:a[0,1)\nmatches 2\n" },
	{ "no expression", Q("a.c", KODA_SEARCH_FIXED), BYTES("abc\na.c\n"),
	    "2@4:a.c[0,3)\nmatches 1\n" },
	{ "\\E in a text", Q("a\\Eb", KODA_SEARCH_FIXED | KODA_SEARCH_WORD), BYTES("ab\na\\Eb\n"),
	    "2@3:a\\Eb[0,4)\nmatches 1\n" },
	{ "\\K", Q("a\\Kb"), BYTES("abab\n"), "1@0:abab[1,2)[3,4)\nmatches 1\n" },
	{ "a verb is of one line", Q("a(*COMMIT)b|c"), BYTES("ax\nc\n"),
	    "2@3:c[0,1)\nmatches 1\n" },
	{ "the ends of all of the text are the line's", Q("\\Aa\\z"), BYTES("ba\na\nab\n"),
	    "2@3:a[0,1)\nmatches 1\n" },
	{ "whatever case", Q("STRASSE", I), BYTES("stra\xc5\xbfse\n"),
	    "1@0:stra\\xc5\\xbfse[0,8)\nmatches 1\n" },
	{ "no UTF-8 around it", Q("b"),
	    BYTES("\xff"
		  "b\xe2\x82\n"),
	    "1@0:\\xffb\\xe2\\x82[1,2)\nmatches 1\n" },
	{ "no UTF-8 is no character", Q("^.b"),
	    BYTES("\xff"
		  "b\nab\n"),
	    "2@3:ab[0,2)\nmatches 1\n" },
	{ "a letter beyond ASCII", Q("^\\w$"), BYTES("\xc3\xa9\n"),
	    "1@0:\\xc3\\xa9[0,2)\nmatches 1\n" },
	/* inverted */
	{ "inverted", Q("b", V), BYTES("a\nb\nc\n"), "1@0:a\n3@4:c\nmatches 2\n" },
	{ "inverted, all", Q("x", V), BYTES("a\n\n"), "1@0:a\n2@2:\nmatches 2\n" },
	{ "inverted, none", Q("", V), BYTES("a\n\n"), "matches 0\n" },
	{ "inverted, no end of the last line", Q("b", V), BYTES("b\na"), "2@2:a\nmatches 1\n" },
	/* context */
	{ "context", Q("c", 0, 1, 1), BYTES("a\nb\nc\nd\ne\n"),
	    "2@2-b\n3@4:c[0,1)\n4@6-d\nmatches 1\n" },
	{ "context is told once", Q("b", 0, 2, 2), BYTES("a\nb\nc\nb\nd\n"),
	    "1@0-a\n2@2:b[0,1)\n3@4-c\n4@6:b[0,1)\n5@8-d\nmatches 2\n" },
	{ "context beside each other", Q("b", 0, 1, 1), BYTES("b\n1\n2\nb\n"),
	    "1@0:b[0,1)\n2@2-1\n3@4-2\n4@6:b[0,1)\nmatches 2\n" },
	{ "context of an inverted match", Q("x", V, 1, 0), BYTES("x\nx\na\n"),
	    "2@2-x\n3@4:a\nmatches 1\n" },
	{ "context behind the last that is wanted", Q("a", 0, 0, 2, 1), BYTES("a\na\nb\na\n"),
	    "1@0:a[0,1)\n2@2-a\n3@4-b\nmatches 1 more\n" },
	/* limits */
	{ "the first two", Q("a", 0, 0, 0, 2), BYTES("a\nb\na\na\n"),
	    "1@0:a[0,1)\n3@4:a[0,1)\nmatches 2 more\n" },
	{ "as many as there are", Q("a", 0, 0, 0, 2), BYTES("a\na\n"),
	    "1@0:a[0,1)\n2@2:a[0,1)\nmatches 2\n" },
	{ "of inverted ones", Q("b", V, 0, 0, 1), BYTES("b\na\nc\n"), "2@2:a\nmatches 1 more\n" },
	{ "cut around the match", Q("x+", 0, 0, 0, 0, 6), BYTES("0123456789xx0123456789\n"),
	    "1@0:<8 89xx01 >8[2,4)\nmatches 1\n" },
	{ "cut, the match comes first", Q("x", 0, 0, 0, 0, 4), BYTES("x123456\n"),
	    "1@0:x123 >3[0,1)\nmatches 1\n" },
	{ "cut, the match comes last", Q("x", 0, 0, 0, 0, 4), BYTES("123456x\n"),
	    "1@0:<3 456x[3,4)\nmatches 1\n" },
	{ "cut, the match is longer", Q("x+", 0, 0, 0, 0, 3), BYTES("00xxxxx00\n"),
	    "1@0:<2 xxx >4[0,3)\nmatches 1\n" },
	{ "cut, a second match in part", Q("xx", 0, 0, 0, 0, 6), BYTES("000xx0xx0xx\n"),
	    "1@0:000xx0 >5[3,5)\nmatches 1\n" },
	{ "cut, a second match in part, around the first", Q("xx", 0, 0, 0, 0, 6),
	    BYTES("00000xx0xx0\n"), "1@0:<3 00xx0x >2[2,4)[5,6)\nmatches 1\n" },
	{ "cut between characters", Q("x", 0, 0, 0, 0, 6),
	    BYTES("\xc3\xa9\xc3\xa9\xc3\xa9x\xc3\xa9\xc3\xa9\n"),
	    "1@0:<4 \\xc3\\xa9x\\xc3\\xa9 >2[2,3)\nmatches 1\n" },
	{ "cut, context", Q("y", 0, 1, 0, 0, 2), BYTES("12345\ny\n"),
	    "1@0-12 >3\n2@6:y[0,1)\nmatches 1\n" },
	/* over lines */
	{ "over lines", Q("a\\nb", U), BYTES("xa\nby\n"), "1@0:xa[1,2)\n2@3:by[0,1)\nmatches 2\n" },
	{ "over lines, with what is between", Q("a[^x]*b", U), BYTES("a\n1\nb\n"),
	    "1@0:a[0,1)\n2@2:1[0,1)\n3@4:b[0,1)\nmatches 3\n" },
	{ "over lines, ends at the end of one", Q("a\\n", U), BYTES("a\nb\n"),
	    "1@0:a[0,1)\nmatches 1\n" },
	{ "over lines, two that share one", Q("a\\nb|c\\nd", U), BYTES("a\nbc\nd\n"),
	    "1@0:a[0,1)\n2@2:bc[0,1)[1,2)\n3@5:d[0,1)\nmatches 3\n" },
	{ "over lines, each begins one", Q("^\\w\\s", U), BYTES("a\nb\n"),
	    "1@0:a[0,1)\n2@2:b[0,1)\nmatches 2\n" },
	{ "over lines, the dot not", Q("a.b", U), BYTES("a\nb\na b\n"),
	    "3@4:a b[0,3)\nmatches 1\n" },
	{ "over lines, the dot, too", Q("a.b", U | KODA_SEARCH_DOTALL), BYTES("a\nb\n"),
	    "1@0:a[0,1)\n2@2:b[0,1)\nmatches 2\n" },
	{ "over lines, not behind the last", Q("^$|x\\n", U), BYTES("a\n"), "matches 0\n" },
	{ "over lines, inverted", Q("a\\nb", U | V), BYTES("0\na\nb\n1\n"),
	    "1@0:0\n4@6:1\nmatches 2\n" },
	{ "over lines, inverted, several in one", Q("a|\\nb", U | V), BYTES("0\naxa\nba\n1\n"),
	    "1@0:0\n4@9:1\nmatches 2\n" },
	{ "over lines, context", Q("b\\nc", U, 1, 1), BYTES("a\nb\nc\nd\n"),
	    "1@0-a\n2@2:b[0,1)\n3@4:c[0,1)\n4@6-d\nmatches 2\n" },
	{ "over lines, counted as matches", Q("a\\s", U | C), BYTES("a a \na\n"),
	    "matches 2 count 3\n" },
	/* counts and names */
	{ "counted", Q("a", C), BYTES("aa\nb\na\n"), "matches 2 count 2\n" },
	{ "counted, at most", Q("a", C, 0, 0, 1), BYTES("aa\nb\na\n"), "matches 1 count 1 more\n" },
	{ "counted, inverted", Q("a", C | V), BYTES("aa\nb\na\n"), "matches 1 count 1\n" },
	{ "matches counted", Q("a", CM), BYTES("aa\nb\na\n"), "matches 2 count 3\n" },
	{ "matches counted, inverted", Q("a", CM | V), BYTES("aa\nb\n"), "matches 1 count 1\n" },
	{ "named", Q("a", L), BYTES("b\na\na\n"), "matches 1\n" },
	{ "named, there is none", Q("x", L), BYTES("b\na\na\n"), "matches 0\n" },
	/* binary */
	{ "binary, found", Q("a", .walked = true), BYTES("a\n\0\na\n"), "matches 0 binary 2\n" },
	{ "binary, found, counted", Q("a", C, .walked = true), BYTES("a\n\0"),
	    "matches 0 binary 2\n" },
	{ "binary, named", Q("a"), BYTES("b\n\0\na\na\n"), "matches 1 binary 2\n" },
	{ "binary, named, none", Q("x"), BYTES("b\n\0\na\n"), "matches 0 binary 2\n" },
	{ "binary, named, counted", Q("a", C), BYTES("a\n\0a\n"), "matches 2 count 2 binary 2\n" },
	{ "binary, named, a NUL ends a line", Q("^a$", C), BYTES("\0a\0"),
	    "matches 1 count 1 binary 0\n" },
	{ "binary, as text", Q("a", TEXT), BYTES("\0a\nb\n"), "1@0:\\x00a[1,2)\nmatches 1\n" },
	{ "binary, as text, found", Q("\\x00", TEXT, .walked = true), BYTES("\0a\n"),
	    "1@0:\\x00a[0,1)\nmatches 1\n" },
	/* encodings */
	{ "UTF-8 with its mark", Q("^a"),
	    BYTES("\xef\xbb\xbf"
		  "a\nb\na\n"),
	    "1@0:a[0,1)\n3@4:a[0,1)\nmatches 2\n" },
	{ "the mark alone", Q(""), BYTES("\xef\xbb\xbf"), "matches 0\n" },
	{ "UTF-16, little end first", Q("\xc3\xa9"),
	    BYTES("\xff\xfe"
		  "a\0\n\0\xe9\0\n\0"),
	    "2@2:\\xc3\\xa9[0,2)\nmatches 1\n" },
	{ "UTF-16, big end first", Q("b", .walked = true),
	    BYTES("\xfe\xff"
		  "\0a\0\n\0b"),
	    "2@2:b[0,1)\nmatches 1\n" },
	{ "UTF-16, a pair", Q("^.$"), BYTES("\xff\xfe\x3d\xd8\x00\xde"),
	    "1@0:\\xf0\\x9f\\x98\\x80[0,4)\nmatches 1\n" },
	{ "UTF-16, half of a pair", Q("^\\x{fffd}a$"),
	    BYTES("\xff\xfe\x3d\xd8"
		  "a\0"),
	    "1@0:\\xef\\xbf\\xbda[0,4)\nmatches 1\n" },
	{ "UTF-16, the other half", Q("^\\x{fffd}a$"),
	    BYTES("\xff\xfe\x00\xde"
		  "a\0"),
	    "1@0:\\xef\\xbf\\xbda[0,4)\nmatches 1\n" },
	{ "UTF-16, half of a pair at the end", Q("^a\\x{fffd}$"),
	    BYTES("\xff\xfe"
		  "a\0\x3d\xd8"),
	    "1@0:a\\xef\\xbf\\xbd[0,4)\nmatches 1\n" },
	{ "UTF-16, an odd byte", Q("^a\\x{fffd}$"),
	    BYTES("\xff\xfe"
		  "a\0b"),
	    "1@0:a\\xef\\xbf\\xbd[0,4)\nmatches 1\n" },
	{ "UTF-16 with a NUL", Q("a", .walked = true),
	    BYTES("\xff\xfe"
		  "a\0\0\0"),
	    "matches 0 binary 1\n" },
	{ "the mark of UTF-16 alone", Q(""), BYTES("\xff\xfe"), "matches 0\n" },
	{ "one byte of it", Q(""), BYTES("\xff"), "1@0:\\xff[0,0)[1,1)\nmatches 1\n" },
};

struct told {
	char text[4096];
	size_t len;
};

static __attribute__((format(printf, 2, 3))) void
say(struct told *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	t->len += (size_t)vsnprintf(t->text + t->len, sizeof(t->text) - t->len, fmt, ap);
	va_end(ap);
	assert_true(t->len < sizeof(t->text));
}

static int
tell(void *data, const struct grep_line *line)
{
	struct told *t = data;

	say(t, "%llu@%llu%c", (unsigned long long)line->line, (unsigned long long)line->offset,
	    line->is_match ? ':' : '-');
	if (line->cut_before > 0)
		say(t, "<%llu ", (unsigned long long)line->cut_before);
	for (size_t i = 0; i < line->len; i++)
		say(t, line->text[i] >= ' ' && line->text[i] < 127 ? "%c" : "\\x%02x",
		    (unsigned char)line->text[i]);
	if (line->cut_after > 0)
		say(t, " >%llu", (unsigned long long)line->cut_after);
	for (size_t i = 0; i < line->n_spans; i++)
		say(t, "[%zu,%zu)", line->spans[i].start, line->spans[i].end);
	say(t, "\n");
	return 0;
}

static struct grep *
grep_of(const struct question *q)
{
	const struct grep_options options = {
		.flags = q->flags,
		.patterns = &q->pattern,
		.n_patterns = 1,
		.before = q->before,
		.after = q->after,
		.max_per_file = q->max,
		.max_columns = q->columns > 0 ? q->columns : KODA_SEARCH_COLUMNS,
	};
	struct koda_error err;
	struct grep *g = grep_new(&options, &err);

	if (g == NULL)
		fail_msg("%s", err.message);
	return g;
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	cleanup_close int fd = file_of(cases[i].content, cases[i].len);
	struct grep *g = grep_of(&cases[i].q);
	struct told t = { .len = 0 };
	struct grep_file file;
	struct koda_error err;

	assert_int_equal(grep_file(g, fd, cases[i].len, !cases[i].q.walked, tell, &t, &file, &err),
	    0);
	say(&t, "matches %llu", (unsigned long long)file.matches);
	if ((cases[i].q.flags & (C | CM)) != 0 && file.count > 0)
		say(&t, " count %llu", (unsigned long long)file.count);
	if (file.binary)
		say(&t, " binary %llu", (unsigned long long)file.nul_at);
	say(&t, file.more ? " more\n" : "\n");
	assert_string_equal(t.text, cases[i].want);
	assert_false(file.long_line);
	grep_free(g);
}

/* ---- files of many pieces ---- */

#define N_LINES 200000 /* of "line 123456", some 2.5 MB */

struct numbers {
	unsigned char kind[N_LINES + 2]; /* 0: not reported, 1: context, 2: match */
	uint64_t last;
	/* offset of the next line if every line were reported */
	uint64_t bytes;
	int fd; /* if >= 0: cut short at the first line */
};

static int
note(void *data, const struct grep_line *line)
{
	struct numbers *n = data;
	char want[32];
	int len = snprintf(want, sizeof(want), "line %06llu", (unsigned long long)line->line);

	assert_true(line->line > n->last && line->line <= N_LINES);
	assert_int_equal(line->offset, (line->line - 1) * 12);
	/* If the file is cut short, its last line is what had been read of it. */
	if (n->fd < 0)
		assert_int_equal(line->len, len);
	assert_memory_equal(line->text, want, line->len);
	n->last = line->line;
	n->kind[line->line] = line->is_match ? 2 : 1;
	if (n->fd >= 0)
		assert_int_equal(ftruncate(n->fd, 1200), 0);
	return 0;
}

static int
many_lines(void)
{
	cleanup_free char *text = malloc(N_LINES * 12 + 1);

	assert_non_null(text);
	for (unsigned i = 1; i <= N_LINES; i++)
		sprintf(text + (i - 1) * 12, "line %06u\n", i);
	return file_of(text, N_LINES * 12);
}

static const struct {
	const char *label;
	struct question q;
	/* lines whose number is a multiple of it match; 0: lines with "000" in the number */
	unsigned modulus;
} pieces[] = {
	{ "pieces: a line in ten", Q("0$"), 10 },
	{ "pieces: as text", Q("000", KODA_SEARCH_FIXED), 0 },
	{ "pieces: context", Q("00$", .before = 7, .after = 9), 100 },
	{ "pieces: context that meets", Q("00$", .before = 60, .after = 60), 100 },
	{ "pieces: context over pieces", Q("00000$", .before = 40000, .after = 40000), 100000 },
	{ "pieces: before alone", Q("000$", .before = 3), 1000 },
	{ "pieces: inverted", Q("[1-9]$", V, .before = 2), 10 },
	{ "pieces: line by line", Q("\\Aline.*00\\z", .after = 1), 100 },
	{ "pieces: over lines", Q("00$(?=\\s|$)", U, .before = 2, .after = 2), 100 },
};

static void
check_pieces(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct question *q = &pieces[i].q;
	cleanup_close int fd = many_lines();
	cleanup_free struct numbers *n = calloc(1, sizeof(*n));
	struct grep *g = grep_of(q);
	struct grep_file file;
	struct koda_error err;
	uint64_t matches = 0;

	assert_non_null(n);
	n->fd = -1;
	assert_int_equal(grep_file(g, fd, N_LINES * 12, false, note, n, &file, &err), 0);
	for (unsigned k = 1; k <= N_LINES; k++) {
		unsigned m = pieces[i].modulus;
		char number[8];
		bool match, context = false;

		snprintf(number, sizeof(number), "%06u", k);
		match = m > 0 ? k % m == 0 : strstr(number, "000") != NULL;
		matches += match;
		/* The nearest matching lines, before and after. */
		if (m > 0 && k % m <= q->after && k >= m)
			context = true;
		if (m > 0 && m - k % m <= q->before && k + (m - k % m) <= N_LINES)
			context = true;
		assert_int_equal(n->kind[k], match ? 2 : context ? 1 : 0);
	}
	assert_int_equal(file.matches, matches);
	assert_int_equal(file.bytes, N_LINES * 12);
	assert_false(file.more || file.binary || file.long_line);
	grep_free(g);
}

/* The file is shorter than its stated size, before or while it is read; or longer. */
static void
check_shrinks(void **state)
{
	cleanup_free struct numbers *n = calloc(1, sizeof(*n));
	cleanup_close int fd = many_lines();
	struct grep *g = grep_of(&(struct question)Q("line"));
	struct grep_file file;
	struct koda_error err;

	assert_non_null(n);
	n->fd = fd;
	assert_int_equal(grep_file(g, fd, N_LINES * 12, true, note, n, &file, &err), 0);
	assert_true(file.matches > 1000 && file.matches < N_LINES);
	assert_false(file.more);
	n->fd = -1;
	n->last = 0;
	assert_int_equal(grep_file(g, fd, N_LINES * 12, true, note, n, &file, &err), 0);
	assert_int_equal(file.bytes, 1200);
	n->last = 0;
	assert_int_equal(grep_file(g, fd, 0, true, note, n, &file, &err), 0);
	assert_int_equal(file.bytes, 1200);
	grep_free(g);
}

static int
stop(void *data, const struct grep_line *line)
{
	return ++*(unsigned *)data == 3;
}

static void
check_stop(void **state)
{
	cleanup_close int fd = many_lines();
	static const struct question questions[] = { Q("line"), Q("line", V), Q("1$", .after = 3),
		Q("0\\n", U) };

	for (size_t i = 0; i < N_ELEMENTS(questions); i++) {
		struct grep *g = grep_of(&questions[i]);
		struct grep_file file;
		struct koda_error err;
		unsigned n = 0;

		assert_int_equal(grep_file(g, fd, N_LINES * 12, true, stop, &n, &file, &err), 0);
		assert_int_equal(n, i == 1 ? 0 : 3);
		assert_int_equal(file.more, i != 1);
		/* The same grep starts the next file afresh. */
		n = 0;
		assert_int_equal(grep_file(g, fd, N_LINES * 12, true, stop, &n, &file, &err), 0);
		assert_int_equal(n, i == 1 ? 0 : 3);
		grep_free(g);
	}
}

/* A NUL far after the first piece: lines reported before it stay reported. */
static void
check_late_nul(void **state)
{
	cleanup_free struct numbers *n = calloc(1, sizeof(*n));
	cleanup_close int fd = many_lines();
	struct grep *g = grep_of(&(struct question)Q("line"));
	struct grep_file file;
	struct koda_error err;

	assert_non_null(n);
	n->fd = -1;
	assert_int_equal(pwrite(fd, "\0", 1, 12 * 150000 + 3), 1);
	for (int named = 0; named < 2; named++) {
		n->last = 0;
		assert_int_equal(grep_file(g, fd, N_LINES * 12, named != 0, note, n, &file, &err),
		    0);
		assert_true(file.binary);
		assert_int_equal(file.nul_at, 12 * 150000 + 3);
		assert_true(file.matches > 1000 && file.matches <= 150000);
		assert_true(n->last > 1000 && n->last <= 150000);
	}
	grep_free(g);
}

static void
check_unreadable(void **state)
{
	cleanup_close int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct grep *g = grep_of(&(struct question)Q("a"));
	struct grep_file file;
	struct koda_error err;

	assert_true(fd >= 0);
	assert_int_equal(grep_file(g, fd, 4096, true, tell, NULL, &file, &err), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, EISDIR);
	grep_free(g);
}

/* ---- long lines ---- */

static long
peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

struct long_lines {
	unsigned n;
	uint64_t offset[8], line[8];
};

static int
note_long(void *data, const struct grep_line *line)
{
	struct long_lines *l = data;

	assert_true(l->n < N_ELEMENTS(l->line));
	assert_true(line->len <= 100);
	assert_int_equal(line->n_spans, 1);
	assert_memory_equal(line->text + line->spans[0].start, "needle", 6);
	l->line[l->n] = line->line;
	l->offset[l->n++] = line->offset + line->cut_before + line->spans[0].start;
	return 0;
}

/* A line longer than grep holds, and lines after it. */
static void
check_long_line(void **state)
{
	static const char *const patterns[] = { "needle", "ne+dle\\b", "[m-o]e{2}dle" };
	const uint64_t size = 2 * (uint64_t)GREP_LINE_MAX + 1;
	const uint64_t at[] = { 1000, GREP_LINE_MAX + 1000, 2 * (uint64_t)GREP_LINE_MAX - 10 };
	cleanup_close int fd = memfd_create("long", MFD_CLOEXEC);
	cleanup_free char *part = malloc(1 << 20);

	assert_true(fd >= 0 && part != NULL);
	memset(part, '.', 1 << 20);
	for (uint64_t n = 0; n < size; n += 1 << 20)
		assert_int_equal(write(fd, part, 1 << 20), 1 << 20);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	for (size_t i = 0; i < N_ELEMENTS(at); i++)
		assert_int_equal(pwrite(fd, "needle", 6, (off_t)at[i]), 6);
	assert_int_equal(pwrite(fd, "\nneedle", 7, (off_t)size), 7);
	for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
		struct grep *g = grep_of(&(struct question)Q(patterns[i], .columns = 100));
		struct long_lines l = { .n = 0 };
		struct grep_file file;
		struct koda_error err;

		assert_int_equal(grep_file(g, fd, size + 7, true, note_long, &l, &file, &err), 0);
		assert_true(file.long_line);
		assert_int_equal(l.n, 4 - (at[2] - at[1] < GREP_LINE_MAX));
		assert_int_equal(l.line[0], 1);
		assert_int_equal(l.offset[0], at[0]);
		assert_int_equal(l.line[l.n - 1], 2);
		assert_int_equal(l.offset[l.n - 1], size + 1);
		grep_free(g);
	}
	/* The buffer doubles until a piece fits. */
	if (!SANITIZED)
		assert_true(peak_kib() < 3 * (long)(GREP_LINE_MAX >> 10));
}

/* Many matches in one long line do not cost the length of the line each. */
static void
check_many_in_a_line(void **state)
{
	enum { SIZE = 4 << 20 };
	static const char *const patterns[] = { "b", "ab", "a[bc]", "\\Bb", "(?=b)", "(?<x>a)b",
		"\\w\\.", "a\\w(?#x)" };
	cleanup_free char *text = malloc(SIZE);
	cleanup_close int fd = -1;

	assert_non_null(text);
	for (size_t i = 0; i < SIZE; i++)
		text[i] = "ab."[i % 3];
	text[0] = (char)0xc3;
	text[1] = (char)0xa9;
	fd = file_of(text, SIZE);
	for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
		struct grep *g = grep_of(&(struct question)Q(patterns[i], CM));
		struct grep_file file;
		struct koda_error err;

		assert_int_equal(grep_file(g, fd, SIZE, true, tell, NULL, &file, &err), 0);
		assert_true(file.count >= SIZE / 3 - 2 && file.count <= SIZE / 3);
		grep_free(g);
	}
}

/* ---- a long call ---- */

static struct grep *ticking;
static volatile sig_atomic_t most;

static void
on_tick(int sig)
{
	unsigned n = grep_ticks(ticking);

	if ((sig_atomic_t)n > most)
		most = (sig_atomic_t)n;
}

static void
check_ticks(void **state)
{
	enum { SIZE = 60000 };
	const struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	cleanup_free char *text = malloc(SIZE);
	cleanup_close int fd = -1;
	struct grep_file file;
	struct koda_error err;

	assert_non_null(text);
	memset(text, 'a', SIZE);
	fd = file_of(text, SIZE);
	/* Each possible start costs all of the rest, and no single start costs too much. */
	ticking = grep_of(&(struct question)Q("[a-z]+[a-z]+[0-9]"));
	assert_int_equal(grep_ticks(ticking), 0);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	assert_int_equal(grep_file(ticking, fd, SIZE, true, tell, NULL, &file, &err), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(file.matches, 0);
	assert_true(most > 10);
	assert_int_equal(grep_ticks(ticking), 0);
	grep_free(ticking);
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(check_shrinks),
		cmocka_unit_test(check_stop),
		cmocka_unit_test(check_late_nul),
		cmocka_unit_test(check_unreadable),
		cmocka_unit_test(check_long_line),
		cmocka_unit_test(check_many_in_a_line),
		cmocka_unit_test(check_ticks),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(pieces) + N_ELEMENTS(others)];
	size_t n = 0;

	CASES(cases, check_case);
	CASES(pieces, check_pieces);
	OTHERS(others);
	return cmocka_run_group_tests_name("grep", tests, NULL, NULL);
}
