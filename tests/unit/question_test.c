/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show/question.c: what a person is shown before saying yes: what it looks like, and that no
 * text in it can act on the terminal, hide, look like something else, or look like ours. Each
 * hostile text stands in each place where text from elsewhere can stand, in each style.
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
#include "shared/base/deceptive.h"
#include "shared/base/utf8.h"
#include "show/asked.h"
#include "show/question.h"
#include "tests/kit/cases.h"

struct shown {
	char *p;
	size_t len;
	bool good, cut;
};

static void
put(void *to, const void *data, size_t len)
{
	struct shown *s = to;

	s->p = realloc(s->p, s->len + len + 1);
	assert_non_null(s->p);
	memcpy(s->p + s->len, data, len);
	s->len += len;
	s->p[s->len] = '\0';
}

static struct shown
show_in(const struct koda_question *q, const struct question_about *about, enum page_style style,
    unsigned columns)
{
	const struct page_medium medium = { .style = style, .columns = columns };
	struct shown s = { 0 };

	s.good = question_show(q, about, medium, put, &s, &s.cut);
	return s;
}

static struct shown
show(const struct koda_question *q, const struct question_about *about, enum page_style style)
{
	return show_in(q, about, style, 0);
}

/* ---- each kind of question ---- */

static const char *const argv_cat[] = { "cat", "a b", "-", NULL };
static const char *const argv_script[] = { "sh", "-c", "make\nmake test", NULL };
static const char *const env_two[] = { "CC=gcc", "CFLAGS=-g -O0", NULL };
static const struct koda_edit edit_b = { "b", 1, "B", 1, false };
static const uint64_t line_2 = 2;

static const struct {
	const char *label;
	struct koda_question q;
	struct question_about about;
	const char *terminal, *message;
} kinds[] = {
	/* clang-format off */
	{ "create", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_NONE, .size_after = 3, .data = "x\ny", .len = 3 }, { 0 },
	    "koda-sandbox: create '/p/a', 3 bytes\n      1 + x\n      2 + y\n        \\ no newline at the end\n",
	    "Allow this? create '/p/a', 3 bytes\n\n+x\n+y\n\\ no newline at the end\n" },
	{ "create an empty file", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_NONE }, { 0 },
	    "koda-sandbox: create '/p/a', 0 bytes\n",
	    "Allow this? create '/p/a', 0 bytes\n\n" },
	{ "replace, the old content is known", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 4, .size_after = 4, .data = "x\nz\n", .len = 4 }, { .old = "x\ny\n", .old_len = 4 },
	    "koda-sandbox: replace '/p/a', 4 -> 4 bytes\n@@ -1,2 +1,2 @@\n      1   x\n      2 - y\n      2 + z\n",
	    "Allow this? replace '/p/a', 4 -> 4 bytes\n\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n" },
	{ "replace with the same", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 2, .size_after = 2, .data = "x\n", .len = 2 }, { .old = "x\n", .old_len = 2 },
	    "koda-sandbox: replace '/p/a', 2 -> 2 bytes\n    (the content stays the same)\n",
	    "Allow this? replace '/p/a', 2 -> 2 bytes\n\n(the content stays the same)\n" },
	{ "replace, the old content is unknown", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 9, .size_after = 2, .data = "x\n", .len = 2 }, { 0 },
	    "koda-sandbox: replace '/p/a', 9 -> 2 bytes\n    (the present content cannot be shown; the new content is:)\n      1 + x\n",
	    "Allow this? replace '/p/a', 9 -> 2 bytes\n\n(the present content cannot be shown; the new content is:)\n+x\n" },
	{ "replace, not what was read", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 9, .size_after = 2, .data = "x\n", .len = 2 }, { .old = "y\n", .old_len = 2 },
	    "koda-sandbox: replace '/p/a', 9 -> 2 bytes\n    (the present content cannot be shown; the new content is:)\n      1 + x\n",
	    "Allow this? replace '/p/a', 9 -> 2 bytes\n\n(the present content cannot be shown; the new content is:)\n+x\n" },
	{ "write a stream, all of it known", { .kind = KODA_OP_WRITE, .path = "/p/a", .type = KODA_FILE_NONE, .size_after = 2 }, { .data = "x\n", .len = 2 },
	    "koda-sandbox: create '/p/a', 2 bytes\n      1 + x\n",
	    "Allow this? create '/p/a', 2 bytes\n\n+x\n" },
	{ "edit, the old content is known", { .kind = KODA_OP_EDIT, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 6, .size_after = 6, .edits = &edit_b, .n_edits = 1, .lines = &line_2, .replacements = 1 }, { .old = "a\nb\nc\n", .old_len = 6 },
	    "koda-sandbox: edit '/p/a', 6 -> 6 bytes, 1 replacement\n@@ -1,3 +1,3 @@\n      1   a\n      2 - b\n      2 + B\n      3   c\n",
	    "Allow this? edit '/p/a', 6 -> 6 bytes, 1 replacement\n\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n" },
	{ "edit, the old content is unknown", { .kind = KODA_OP_EDIT, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 6, .size_after = 6, .edits = &edit_b, .n_edits = 1, .lines = &line_2, .replacements = 1 }, { 0 },
	    "koda-sandbox: edit '/p/a', 6 -> 6 bytes, 1 replacement\n@@ once, in line 2 @@\n      2 - b\n      2 + B\n",
	    "Allow this? edit '/p/a', 6 -> 6 bytes, 1 replacement\n\n@@ once, in line 2 @@\n-b\n+B\n" },
	{ "edit, the library has counted otherwise", { .kind = KODA_OP_EDIT, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 6, .size_after = 6, .edits = &edit_b, .n_edits = 1, .lines = &line_2, .replacements = 2 }, { .old = "a\nb\nc\n", .old_len = 6 },
	    "koda-sandbox: edit '/p/a', 6 -> 6 bytes, 2 replacements\n@@ once, in line 2 @@\n      2 - b\n      2 + B\n",
	    "Allow this? edit '/p/a', 6 -> 6 bytes, 2 replacements\n\n@@ once, in line 2 @@\n-b\n+B\n" },
	{ "make a directory", { .kind = KODA_OP_MKDIR, .path = "/p/d" }, { 0 },
	    "koda-sandbox: make the directory '/p/d'\n",
	    "Allow this? make the directory '/p/d'\n" },
	{ "remove a file", { .kind = KODA_OP_REMOVE, .path = "/p/a", .type = KODA_FILE_REGULAR, .size_before = 7 }, { 0 },
	    "koda-sandbox: remove the file '/p/a', 7 bytes\n",
	    "Allow this? remove the file '/p/a', 7 bytes\n" },
	{ "remove a link", { .kind = KODA_OP_REMOVE, .path = "/p/a", .type = KODA_FILE_SYMLINK, .size_before = 7 }, { 0 },
	    "koda-sandbox: remove the symbolic link '/p/a', 7 bytes\n",
	    "Allow this? remove the symbolic link '/p/a', 7 bytes\n" },
	{ "remove a directory", { .kind = KODA_OP_REMOVE, .path = "/p/d", .type = KODA_FILE_DIRECTORY, .entries = 3 }, { 0 },
	    "koda-sandbox: remove the directory '/p/d', 3 names in all\n",
	    "Allow this? remove the directory '/p/d', 3 names in all\n" },
	{ "move", { .kind = KODA_OP_RENAME, .path = "/p/a", .to = "/p/b", .type = KODA_FILE_REGULAR }, { 0 },
	    "koda-sandbox: move '/p/a' to '/p/b'\n",
	    "Allow this? move the file '/p/a'\nto '/p/b'\n" },
	{ "move onto a file", { .kind = KODA_OP_RENAME, .path = "/p/a", .to = "/p/b", .type = KODA_FILE_REGULAR }, { .replaced = KODA_FILE_REGULAR, .replaced_size = 3 },
	    "koda-sandbox: move '/p/a' to '/p/b'\n    replacing the file of 3 bytes that is there\n",
	    "Allow this? move the file '/p/a'\nto '/p/b'\nreplacing the file of 3 bytes that is there\n" },
	{ "move onto a link", { .kind = KODA_OP_RENAME, .path = "/p/a", .to = "/p/b", .type = KODA_FILE_DIRECTORY }, { .replaced = KODA_FILE_SYMLINK },
	    "koda-sandbox: move '/p/a' to '/p/b'\n    replacing the symbolic link that is there\n",
	    "Allow this? move the directory '/p/a'\nto '/p/b'\nreplacing the symbolic link that is there\n" },
	{ "move onto what may be there", { .kind = KODA_OP_RENAME, .path = "/p/a", .to = "/p/b", .type = KODA_FILE_REGULAR }, { .may_replace = true },
	    "koda-sandbox: move '/p/a' to '/p/b'\n    replacing what is there, if anything\n",
	    "Allow this? move the file '/p/a'\nto '/p/b'\nreplacing what is there, if anything\n" },
	{ "run", { .kind = KODA_OP_RUN, .argv = argv_cat, .cwd = "/p", .env = env_two }, { 0 },
	    "koda-sandbox: run in '/p'\n    with CC=gcc\n    with 'CFLAGS=-g -O0'\n    cat 'a b' -\n",
	    "Allow this? run in '/p'\nwith CC=gcc\nwith 'CFLAGS=-g -O0'\ncat 'a b' -\n" },
	{ "run a script", { .kind = KODA_OP_RUN, .argv = argv_script, .cwd = "/p" }, { .background = true },
	    "koda-sandbox: run in the background in '/p'\n    sh -c\n      1 + make\n      2 + make test\n",
	    "Allow this? run in the background in '/p'\nsh -c\n+make\n+make test\n" },
	{ "reach a host", { .kind = KODA_OP_CONNECT, .host = "a.example", .port = 80 }, { 0 },
	    "\nkoda-sandbox: a command wants to reach 'a.example:80', which no rule names\n",
	    "Allow this? a command wants to reach 'a.example', port 80, which no rule names\n" },
	{ "reach a host, by a command", { .kind = KODA_OP_CONNECT, .host = "a.example", .port = 80 }, { .command = "curl -s" },
	    "\nkoda-sandbox: 'curl -s' wants to reach 'a.example:80', which no rule names\n",
	    "Allow this? 'curl -s' wants to reach 'a.example', port 80, which no rule names\n" },
	/* clang-format on */
};

static void
without(struct shown *s, const char *what)
{
	const size_t n = strlen(what);
	char *at;

	while ((at = memmem(s->p, s->len, what, n)) != NULL) {
		memmove(at, at + n, s->len - (size_t)(at - s->p) - n + 1);
		s->len -= n;
	}
}

/* Removes our own colours. What else begins with ESC stays, to be found. */
static void
without_colours(struct shown *s)
{
	static const char *const ours[] = { PAGE_BOLD, PAGE_RED, PAGE_GREEN, PAGE_CYAN,
		PAGE_PLAIN };

	for (size_t i = 0; i < N_ELEMENTS(ours); i++)
		without(s, ours[i]);
}

static void
check_kind(void **state)
{
	const size_t i = (uintptr_t)*state;

	for (enum page_style style = 0; style < PAGE_STYLES; style++) {
		struct shown s = show(&kinds[i].q, &kinds[i].about, style);

		assert_true(s.good);
		assert_false(s.cut);
		if (style == PAGE_COLOUR) {
			assert_non_null(strstr(s.p, PAGE_PLAIN));
			without_colours(&s);
		}
		assert_string_equal(s.p,
		    style == PAGE_MESSAGE ? kinds[i].message : kinds[i].terminal);
		free(s.p);
	}
}

/* ---- hostile text, everywhere ---- */

#define TEN    "          "
#define EIGHTY TEN TEN TEN TEN TEN TEN TEN TEN
/* A literal, with its length: it may hold a NUL. */
#define TEXT(s) s, sizeof(s) - 1

static const struct text {
	const char *label, *p;
	size_t len;
	/* How it is shown in quotes, and, if different, in a word of a command and in a line. */
	const char *name, *word, *line;
} texts[] = {
	/* clang-format off */
	{ "an escape sequence", TEXT("a\033[2J\033[1;1Hb"), "a\\x1b[2J\\x1b[1;1Hb", NULL, NULL },
	{ "the title of the terminal", TEXT("a\033]0;b\007c"), "a\\x1b]0;b\\x07c", NULL, NULL },
	{ "one of our colours", TEXT("a\033[0mb"), "a\\x1b[0mb", NULL, NULL },
	{ "a C1 control", TEXT("a\xc2\x9b" "2Jb"), "a\\u{9b}2Jb", NULL, NULL },
	{ "a bare C1 byte", TEXT("a\x9b" "2Jb"), "a\\x9b2Jb", NULL, NULL },
	{ "backspaces", TEXT("a\b\bb"), "a\\x08\\x08b", NULL, NULL },
	{ "a carriage return", TEXT("a\rb"), "a\\x0db", NULL, NULL },
	{ "delete", TEXT("a\177b"), "a\\x7fb", NULL, NULL },
	{ "an override", TEXT("a\xe2\x80\xae" "b"), "a\\u{202e}b", NULL, NULL },
	{ "isolates", TEXT("a\xe2\x81\xa6" "b\xe2\x81\xa9"), "a\\u{2066}b\\u{2069}", NULL, NULL },
	{ "a mark of direction", TEXT("a\xe2\x80\x8f\xd8\x9c" "b"), "a\\u{200f}\\u{61c}b", NULL, NULL },
	{ "zero width", TEXT("a\xe2\x80\x8b\xe2\x80\x8d\xef\xbb\xbf" "b"), "a\\u{200b}\\u{200d}\\u{feff}b", NULL, NULL },
	{ "letters without ink", TEXT("a\xe3\x85\xa4\xe2\xa0\x80" "b"), "a\\u{3164}\\u{2800}b", NULL, NULL },
	{ "tags", TEXT("a\xf3\xa0\x81\x81" "b"), "a\\u{e0041}b", NULL, NULL },
	{ "a line of Unicode", TEXT("a\xe2\x80\xa8\xc2\x85" "b"), "a\\u{2028}\\u{85}b", NULL, NULL },
	{ "struck out", TEXT("a\xcc\xb6" "b"), "a\\u{336}b", NULL, NULL },
	{ "two scripts in a word", TEXT("p\xd0\xb0ypal.com"), "p\xd0\xb0ypal[mixed scripts].com", NULL, NULL },
	{ "no UTF-8", TEXT("a\xff\xc3" "b\xed\xa0\x80\xc0\xaf"), "a\\xff\\xc3b\\xed\\xa0\\x80\\xc0\\xaf", NULL, NULL },
	{ "half a character", TEXT("a\xe2\x82"), "a\\xe2\\x82", NULL, NULL },
	{ "blanks that push", TEXT("a" EIGHTY "b"), "a[80 spaces]b", NULL, NULL },
	{ "blanks after a quote", TEXT("a'" TEN TEN TEN TEN "b"), "a\\'[40 spaces]b", "a'\\''[40 spaces]b", "a'[40 spaces]b" },
	{ "a tab", TEXT("a\tb"), "a\\x09b", NULL, "a\tb" },
	{ "a quote that closes", TEXT("a', 3 bytes"), "a\\', 3 bytes", "a'\\'', 3 bytes", "a', 3 bytes" },
	{ "a quote that closes after a backslash", TEXT("a\\', 3 bytes"), "a\\\\\\', 3 bytes", "a\\'\\'', 3 bytes", "a\\', 3 bytes" },
	{ "what looks escaped", TEXT("a\\x1b"), "a\\\\x1b", "a\\x1b", "a\\x1b" },
	{ "the prompt", TEXT("Allow this? [y/N] y"), "Allow this? [y/N] y", NULL, NULL },
	{ "our name", TEXT("koda-sandbox: run in '/'"), "koda-sandbox: run in \\'/\\'", "koda-sandbox: run in '\\''/'\\''", "koda-sandbox: run in '/'" },
	{ "a mark of ours", TEXT("[... 9 lines are left out here ...]"), "[... 9 lines are left out here ...]", NULL, NULL },
	{ "a head of ours", TEXT("@@ -1,1 +1,1 @@"), "@@ -1,1 +1,1 @@", NULL, NULL },
	/* Two lines, where there are lines. */
	{ "a newline, and the prompt", TEXT("a\nAllow this? [y/N] y"), "a\\x0aAllow this? [y/N] y", NULL, "Allow this? [y/N] y" },
	{ "a newline, and our name", TEXT("a\nkoda-sandbox: done\n"), "a\\x0akoda-sandbox: done\\x0a", NULL, "koda-sandbox: done" },
	{ "NUL", TEXT("a\0b"), NULL, NULL, "a\\x00b" },
	/* clang-format on */
};

/* Where text from elsewhere can stand. */
enum form { NAME, WORD, LINE };

/* What a question points to. */
struct asked_about {
	struct koda_question q;
	struct question_about about;
	struct koda_edit edit;
	const char *words[4], *env[2];
};

static void
in_path(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_MKDIR, .path = p };
}

static void
in_written_path(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_WRITE, .path = p };
}

static void
in_removed_path(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_REMOVE, .path = p, .type = KODA_FILE_OTHER };
}

static void
in_old_name(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_RENAME, .path = p, .to = "/to" };
}

static void
in_new_name(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_RENAME, .path = "/from", .to = p };
	a->about.replaced = KODA_FILE_REGULAR;
}

static void
ask_to_run(struct asked_about *a, const char *first, const char *second, const char *third)
{
	a->words[0] = first;
	a->words[1] = second;
	a->words[2] = third;
	a->q = (struct koda_question){ .kind = KODA_OP_RUN,
		.cwd = "/p",
		.argv = a->words,
		.env = a->env };
}

static void
in_cwd(struct asked_about *a, const char *p, size_t len)
{
	ask_to_run(a, "ls", NULL, NULL);
	a->q.cwd = p;
}

static void
in_program(struct asked_about *a, const char *p, size_t len)
{
	ask_to_run(a, p, "-l", NULL);
}

static void
in_argument(struct asked_about *a, const char *p, size_t len)
{
	ask_to_run(a, "ls", "-l", p);
}

static void
in_environment(struct asked_about *a, const char *p, size_t len)
{
	ask_to_run(a, "ls", NULL, NULL);
	a->env[0] = p;
}

static void
in_script(struct asked_about *a, const char *p, size_t len)
{
	ask_to_run(a, "sh", "-c", p);
}

static void
in_host(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_CONNECT, .host = p, .port = 443 };
}

static void
in_running_command(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_CONNECT, .host = "a.example", .port = 443 };
	a->about.command = p;
}

static void
in_new_file(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_WRITE,
		.path = "/p/a",
		.data = p,
		.len = len,
		.size_after = len };
}

static void
in_stream(struct asked_about *a, const char *p, size_t len)
{
	a->q = (struct koda_question){ .kind = KODA_OP_WRITE, .path = "/p/a", .size_after = len };
	a->about.data = p;
	a->about.len = len;
}

static void
in_added_lines(struct asked_about *a, const char *p, size_t len)
{
	in_new_file(a, p, len);
	a->q.type = KODA_FILE_REGULAR;
	a->q.size_before = a->about.old_len = 2;
	a->about.old = "x\n";
}

static void
in_removed_lines(struct asked_about *a, const char *p, size_t len)
{
	in_new_file(a, "x\n", 2);
	a->q.type = KODA_FILE_REGULAR;
	a->q.size_before = a->about.old_len = len;
	a->about.old = p;
}

static void
ask_to_edit(struct asked_about *a, const char *was, size_t was_len, const char *is, size_t is_len)
{
	a->edit = (struct koda_edit){ was, was_len, is, is_len, false };
	a->q = (struct koda_question){ .kind = KODA_OP_EDIT,
		.path = "/p/a",
		.type = KODA_FILE_REGULAR,
		.edits = &a->edit,
		.n_edits = 1,
		.replacements = 1 };
}

static void
in_replaced(struct asked_about *a, const char *p, size_t len)
{
	ask_to_edit(a, p, len, "x", 1);
}

static void
in_replacement(struct asked_about *a, const char *p, size_t len)
{
	ask_to_edit(a, "x", 1, p, len);
}

static const struct place {
	const char *label;
	enum form form;
	bool bytes; /* it may hold a NUL */
	void (*ask)(struct asked_about *a, const char *p, size_t len);
} places[] = {
	{ "a path", NAME, false, in_path },
	{ "the path of a file that is written", NAME, false, in_written_path },
	{ "the path of what is removed", NAME, false, in_removed_path },
	{ "the old name", NAME, false, in_old_name },
	{ "the new name", NAME, false, in_new_name },
	{ "the directory of a command", NAME, false, in_cwd },
	{ "the name of a host", NAME, false, in_host },
	{ "the command that wants to reach a host", NAME, false, in_running_command },
	{ "the program", WORD, false, in_program },
	{ "an argument", WORD, false, in_argument },
	{ "the environment", WORD, false, in_environment },
	{ "a script", LINE, false, in_script },
	{ "a new file", LINE, false, in_new_file },
	{ "a stream", LINE, false, in_stream },
	{ "added lines", LINE, false, in_added_lines },
	{ "removed lines", LINE, false, in_removed_lines },
	{ "a replaced text", LINE, true, in_replaced },
	{ "a replacement", LINE, true, in_replacement },
};

static size_t
count(const char *p, const char *what)
{
	size_t n = 0;

	for (; (p = strstr(p, what)) != NULL; p += strlen(what))
		n++;
	return n;
}

/* No byte acts on a terminal, and no character is invisible or changes the order of others. */
static void
is_harmless(const struct shown *s, bool tabs)
{
	assert_int_equal(strlen(s->p), s->len);
	for (size_t i = 0; i < s->len;) {
		uint32_t c;
		size_t n = utf8_next((const uint8_t *)s->p + i, s->len - i, &c);

		if (n == 0 || (is_deceptive(c) && c != '\n' && !(tabs && c == '\t')))
			fail_msg("byte %zu of: %s", i, s->p);
		i += n;
	}
}

/* Of all lines only ours begin as ours do: a line of a text has at least a sign before it. */
static void
lines_are_ours(const struct shown *s, enum page_style style)
{
	const char *head = style == PAGE_MESSAGE ? "Allow this? " : "koda-sandbox: ";
	const char *line = s->p + (s->p[0] == '\n');

	assert_int_equal(strncmp(line, head, strlen(head)), 0);
	while ((line = strchr(line, '\n')) != NULL) {
		line++;
		assert_int_not_equal(strncmp(line, "Allow this?", 11), 0);
		assert_int_not_equal(strncmp(line, "koda-sandbox:", 13), 0);
		assert_int_not_equal(strncmp(line, "[...", 4), 0);
		assert_int_not_equal(strncmp(line, "NOT ALL", 7), 0);
	}
}

/* In a place without lines the text adds none: the question has as many as with a plain text. */
static void
adds_no_line(const struct place *place, const struct shown *s, enum page_style style)
{
	struct asked_about plain = { 0 };
	struct shown other;

	place->ask(&plain, "plain", 5);
	other = show(&plain.q, &plain.about, style);
	assert_true(other.good);
	assert_int_equal(count(s->p, "\n"), count(other.p, "\n"));
	free(other.p);
}

struct hostile {
	const struct text *text;
	const struct place *place;
	char label[128];
};

static void
check_hostile(void **state)
{
	const struct hostile *h = *state;
	const struct place *place = h->place;
	const struct text *text = h->text;
	const char *want = place->form == WORD && text->word != NULL ? text->word
	    : place->form == LINE && text->line != NULL              ? text->line
								     : text->name;
	struct shown all[PAGE_STYLES];

	for (enum page_style style = 0; style < PAGE_STYLES; style++) {
		struct asked_about a = { 0 };
		struct shown *s = &all[style];

		place->ask(&a, text->p, text->len);
		*s = show(&a.q, &a.about, style);
		assert_true(s->good);
		assert_false(s->cut);
		if (style == PAGE_COLOUR)
			without_colours(s);
		if (strstr(s->p, want) == NULL)
			fail_msg("'%s' is not in: %s", want, s->p);
		is_harmless(s, place->form == LINE);
		lines_are_ours(s, style);
		if (place->form != LINE)
			adds_no_line(place, s, style);
	}
	/* The two differ only in their colours. */
	assert_string_equal(all[PAGE_COLOUR].p, all[PAGE_TERMINAL].p);
	for (enum page_style style = 0; style < PAGE_STYLES; style++)
		free(all[style].p);
}

/* The same texts in the offer of an answer for the session. */
static void
check_session(void **state)
{
	const struct text *text = *state;
	struct shown s = { 0 };
	char want[256];

	snprintf(want, sizeof(want), "This session: writing and editing files below '%s'",
	    text->name);
	question_show_session(KODA_OP_WRITE, text->p, text->len, put, &s);
	assert_string_equal(s.p, want);
	is_harmless(&s, false);
	free(s.p);
}

/* ---- too much of it ---- */

#define CUT_IN_TERMINAL                                                                            \
	"koda-sandbox: NOT ALL OF THIS IS SHOWN: [...] marks what is left out, "                   \
	"so it can be allowed once only.\nkoda-sandbox: "
#define CUT_IN_MESSAGE                                                                             \
	"NOT ALL OF THIS IS SHOWN: [...] marks what is left out, "                                 \
	"so it can be allowed once only. Allow this? "

/* The first line says that something was left out, and the marks say how much. */
static void
is_cut(const struct asked_about *a, const char *mark)
{
	for (enum page_style style = 0; style < PAGE_STYLES; style++) {
		const char *begin = style == PAGE_MESSAGE ? CUT_IN_MESSAGE : CUT_IN_TERMINAL;
		struct shown s = show(&a->q, &a->about, style);

		assert_true(s.good);
		assert_true(s.cut);
		assert_int_equal(strncmp(s.p, begin, strlen(begin)), 0);
		without_colours(&s);
		if (strstr(s.p, mark) == NULL)
			fail_msg("'%s' is not in: %s", mark, s.p);
		/* It is short enough for a person to read. */
		assert_true(s.len < 32768);
		free(s.p);
	}
}

static void
long_text(void **state)
{
	const struct place *place = *state;
	struct asked_about a = { 0 };
	char *text = malloc(100001);

	assert_non_null(text);
	memset(text, 'x', 100000);
	text[100000] = '\0';
	if (place->form == NAME) {
		/* What is acted on is shown in full. */
		text[4095] = '\0';
		place->ask(&a, text, 4095);
		for (enum page_style style = 0; style < PAGE_STYLES; style++) {
			struct shown s = show(&a.q, &a.about, style);

			assert_true(s.good);
			assert_false(s.cut);
			assert_non_null(strstr(s.p,
			    place->ask == in_running_command ? "x ...' wants to reach" : text));
			free(s.p);
		}
	} else {
		place->ask(&a, text, 100000);
		is_cut(&a, "x [... 98000 bytes are left out here ...] x");
	}
	free(text);
}

static void
many_lines(void **state)
{
	const struct place *place = *state;
	struct asked_about a = { 0 };
	char text[1201];

	for (size_t i = 0; i < 1200; i += 2)
		memcpy(text + i, "y\n", 3);
	if (place->form == LINE) {
		place->ask(&a, text, 1200);
		/* If the change also removes or adds another line, one line more is left out. */
		is_cut(&a,
		    a.q.kind == KODA_OP_EDIT || a.about.old != NULL
			? "\n[... 201 lines are left out here ...]\n"
			: "\n[... 200 lines are left out here ...]\n");
	} else {
		place->ask(&a, text, 1200);
		for (enum page_style style = 0; style < PAGE_STYLES; style++) {
			struct shown s = show(&a.q, &a.about, style);

			adds_no_line(place, &s, style);
			free(s.p);
		}
	}
}

static void
empty_lines(void **state)
{
	const struct place *place = *state;
	static const char text[] = "a\n\n\n\n\n\n\n\n\nb\n";
	struct asked_about a = { 0 };

	if (place->form != LINE)
		return;
	place->ask(&a, text, sizeof(text) - 1);
	for (enum page_style style = 0; style < PAGE_STYLES; style++) {
		struct shown s = show(&a.q, &a.about, style);

		assert_non_null(strstr(s.p, "[4 more empty lines]"));
		assert_false(s.cut);
		free(s.p);
	}
}

static void
many_words(void **state)
{
	const char *words[1001];
	struct asked_about a = { 0 };

	for (size_t i = 0; i < 1000; i++)
		words[i] = "w";
	words[1000] = NULL;
	ask_to_run(&a, "ls", NULL, NULL);
	a.q.argv = words;
	is_cut(&a, "w [... 600 words are left out here ...] w");
	ask_to_run(&a, "ls", NULL, NULL);
	a.q.env = words;
	is_cut(&a, "with [... 600 words are left out here ...]\n");
}

/* Of a stream only the beginning is known, or nothing. */
static void
unknown_content(void **state)
{
	struct asked_about a = { 0 };
	struct shown s;

	in_stream(&a, "x\ny", 3);
	a.q.size_after = 10;
	is_cut(&a, "y\n");
	is_cut(&a, "[... 7 bytes are left out here ...]\n");
	s = show(&a.q, &a.about, PAGE_MESSAGE);
	assert_null(strstr(s.p, "no newline at the end"));
	free(s.p);
	a.about = (struct question_about){ 0 };
	is_cut(&a, "[... 10 bytes are left out here ...]\n");
}

/* Binary content is not shown, so a yes is for once. */
static void
binary_content(void **state)
{
	struct asked_about a = { 0 };

	a.q = (struct koda_question){ .kind = KODA_OP_WRITE,
		.path = "/p/a",
		.type = KODA_FILE_NONE,
		.size_after = 3,
		.data = "a\0b",
		.len = 3 };
	is_cut(&a, "create '/p/a', 3 bytes\n");
	is_cut(&a, "[... 3 bytes of binary content ...]\n");
}

/* A running command is cut between characters. */
static void
cut_command(void **state)
{
	struct asked_about a = { 0 };
	char command[601];
	struct shown s;

	for (size_t i = 0; i < 600; i += 3)
		memcpy(command + i, "\xe2\x82\xac", 4);
	in_running_command(&a, command, 600);
	s = show(&a.q, &a.about, PAGE_MESSAGE);
	assert_non_null(strstr(s.p, "\xe2\x82\xac ...' wants to reach"));
	assert_int_equal(count(s.p, "\xe2\x82\xac"), 66);
	free(s.p);
}

/* ---- the edge of a terminal ---- */

/*
 * Fails if a row of a terminal with so many columns begins with that character. No character of
 * ours is wide, and none of ours is the foreign one.
 */
static void
no_row_begins_with(const struct shown *s, unsigned columns, const char *foreign)
{
	const size_t n = strlen(foreign);
	const unsigned wide = n > 1 ? 2 : 1;
	unsigned column = 0;

	for (size_t i = 0; i < s->len;) {
		const bool is = strncmp(s->p + i, foreign, n) == 0;
		const unsigned width = is ? wide : 1;

		if (s->p[i] == '\n') {
			column = 0;
			i++;
			continue;
		}
		if (column + width > columns)
			column = 0;
		if (is && column == 0)
			fail_msg("%u columns, byte %zu of: %s", columns, i, s->p);
		column += width;
		i += is ? n : 1;
	}
}

/*
 * A text that is wider than the terminal is wrapped by us, so that no part of it begins a row: it
 * could be a question of its own, with the real one out of sight above it.
 */
static void
wrapped(void **state)
{
	static const char *const foreign[] = { "Z", "\xe4\xb8\xad" };
	const struct place *place = *state;

	for (size_t i = 0; i < N_ELEMENTS(foreign); i++) {
		const size_t n = strlen(foreign[i]);
		struct asked_about a = { 0 };
		struct shown whole;
		char text[1801];

		for (size_t k = 0; k < 1800; k += n)
			memcpy(text + k, foreign[i], n + 1);
		place->ask(&a, text, 1800);
		whole = show(&a.q, &a.about, PAGE_TERMINAL);
		for (unsigned columns = PAGE_COLUMNS_MIN; columns < 120; columns++) {
			struct shown s = show_in(&a.q, &a.about, PAGE_TERMINAL, columns);
			struct shown colour = show_in(&a.q, &a.about, PAGE_COLOUR, columns);
			char *own; /* a row that we begin ourselves */

			assert_true(s.good && colour.good);
			no_row_begins_with(&s, columns, foreign[i]);
			without_colours(&colour);
			assert_string_equal(colour.p, s.p);
			without(&s, "\n" PAGE_WRAPPED);
			own = strstr(s.p, "\n    wants to reach ");
			if (own != NULL) {
				memmove(own, own + 4, strlen(own + 4) + 1);
				*own = ' ';
			}
			assert_string_equal(s.p, whole.p);
			free(s.p);
			free(colour.p);
		}
		free(whole.p);
	}
}

/* The host is not wrapped: it is in one piece, in a row of our own. */
static void
wrapped_host(void **state)
{
	struct asked_about a = { 0 };
	struct shown s;

	in_running_command(&a, "curl -s https://a.example/ -o /dev/null", 0);
	s = show_in(&a.q, &a.about, PAGE_TERMINAL, 60);
	assert_string_equal(s.p,
	    "\nkoda-sandbox: 'curl -s https://a.example/ -o /dev/null'\n"
	    "    wants to reach 'a.example:443', which no rule names\n");
	free(s.p);
}

/* The width of a tab depends on its column. */
static void
wrapped_tabs(void **state)
{
	struct asked_about a = { 0 };
	struct shown s;

	in_new_file(&a, "\t\tabc\tdefghi\n", 13);
	s = show_in(&a.q, &a.about, PAGE_TERMINAL, 30);
	assert_string_equal(s.p,
	    "koda-sandbox: create '/p/a', 13 bytes\n"
	    "      1 + \t\tabc\n" PAGE_WRAPPED "\tdefghi\n");
	free(s.p);
}

/* ---- what cannot be asked ---- */

static void
no_question(void **state)
{
	static const struct koda_question none[] = {
		{ .kind = KODA_OP_PING },
		{ .kind = KODA_OP_READ, .path = "/p/a" },
		{ .kind = KODA_OP_LIST, .path = "/p/a" },
		{ .kind = 0, .path = "/p/a" },
		{ .kind = KODA_OP_CONNECT + 1, .path = "/p/a" },
		{ .kind = KODA_OP_WRITE },
		{ .kind = KODA_OP_REMOVE },
		{ .kind = KODA_OP_RENAME, .path = "/p/a" },
		{ .kind = KODA_OP_RUN, .argv = argv_cat },
		{ .kind = KODA_OP_RUN, .cwd = "/p" },
		{ .kind = KODA_OP_CONNECT },
	};
	const struct question_about about = { 0 };

	for (size_t i = 0; i < N_ELEMENTS(none); i++) {
		struct shown s = show(&none[i], &about, PAGE_TERMINAL);

		assert_false(s.good);
		assert_null(s.p);
	}
}

static struct CMUnitTest tests[N_ELEMENTS(kinds) + N_ELEMENTS(texts) * (N_ELEMENTS(places) + 1) +
    4 * N_ELEMENTS(places) + 7];
static struct hostile
    hostile[N_ELEMENTS(texts) * (N_ELEMENTS(places) + 1) + 4 * N_ELEMENTS(places)];

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(many_words),
		cmocka_unit_test(unknown_content),
		cmocka_unit_test(binary_content),
		cmocka_unit_test(cut_command),
		cmocka_unit_test(wrapped_tabs),
		cmocka_unit_test(wrapped_host),
		cmocka_unit_test(no_question),
	};
	static const struct {
		const char *label;
		CMUnitTestFunction run;
	} much[] = {
		{ "long text", long_text },
		{ "many lines", many_lines },
		{ "empty lines", empty_lines },
		{ "beyond the edge", wrapped },
	};
	struct hostile *h = hostile;
	size_t n = 0;

	CASES(kinds, check_kind);
	for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
		for (size_t k = 0; k < N_ELEMENTS(places); k++) {
			if (places[k].form == LINE ? texts[i].name == NULL && !places[k].bytes
						   : texts[i].name == NULL)
				continue;
			*h = (struct hostile){ .text = &texts[i], .place = &places[k] };
			snprintf(h->label, sizeof(h->label), "%s in %s", texts[i].label,
			    places[k].label);
			tests[n++] = (struct CMUnitTest){ h->label, check_hostile, NULL, NULL, h };
			h++;
		}
		if (texts[i].name == NULL)
			continue;
		snprintf(h->label, sizeof(h->label), "%s in an answer for the session",
		    texts[i].label);
		tests[n++] =
		    (struct CMUnitTest){ h->label, check_session, NULL, NULL, (void *)&texts[i] };
		h++;
	}
	for (size_t i = 0; i < N_ELEMENTS(much); i++) {
		for (size_t k = 0; k < N_ELEMENTS(places); k++) {
			snprintf(h->label, sizeof(h->label), "%s in %s", much[i].label,
			    places[k].label);
			tests[n++] = (struct CMUnitTest){ h->label, much[i].run, NULL, NULL,
				(void *)&places[k] };
			h++;
		}
	}
	OTHERS(single);
	return _cmocka_run_group_tests("question", tests, n, NULL, NULL);
}
