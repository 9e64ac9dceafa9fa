/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs glob, fs grep and fs tree as people and programs use them, compared with ripgrep: the same
 * words, the same tree, the same bytes and the same status, in a pipe and on a terminal. Intended
 * differences have tests of their own.
 */
#include "tests/kit/cases.h"
#include "tests/kit/search_scene.h"

/* ---- compared with ripgrep ---- */

struct same {
	/* For both programs, except the first word: "grep" is rg, "glob X" is rg --files -g X. */
	const char *words[WORDS_MAX];
	const char *theirs; /* rg's word where it differs from our first option */
	bool pipe_only;     /* some output is escaped on a terminal */
};

static const struct same same[] = {
	/* clang-format off */
	{ .words = { "grep", "foo" }, .pipe_only = true },
	{ .words = { "grep", "foo", "a.txt" } },
	{ .words = { "grep", "foo", "a.txt", "b.c" } },
	{ .words = { "grep", "foo", "sub" } },
	{ .words = { "grep", "foo", "sub/" } },
	{ .words = { "grep", "foo", "./sub" } },
	{ .words = { "grep", "foo", "./sub//" } },
	{ .words = { "grep", "foo", "." }, .pipe_only = true },
	{ .words = { "grep", "foo", "./" }, .pipe_only = true },
	{ .words = { "grep", "foo", "sub", "a.txt" } },
	{ .words = { "grep", "foo", "sub", "sub" } },
	{ .words = { "grep", "foo", "sub/../a.txt" } },
	{ .words = { "grep", "foo", "sp ace.txt" } },
	{ .words = { "grep", "foo", "link.txt" } },
	{ .words = { "grep", "foo", "err.log" } },
	{ .words = { "grep", "foo", "build" } },
	{ .words = { "grep", "foo", ".hid" } },
	{ .words = { "grep", "foo", ".hidden.txt" } },
	{ .words = { "grep", "foo", "empty.txt" } },
	{ .words = { "grep", "foo", "sub/other" } },
	{ .words = { "grep", "nowhere-at-all" } },
	{ .words = { "grep", "foo", "missing.txt" } },
	{ .words = { "grep", "foo", "missing.txt", "a.txt" } },
	{ .words = { "grep", "nowhere", "missing.txt", "a.txt" } },
	{ .words = { "grep", "-q", "foo", "missing.txt", "a.txt" } },
	{ .words = { "grep", "-n", "foo", "sub" } },
	{ .words = { "grep", "-N", "foo", "sub" } },
	{ .words = { "grep", "-nH", "foo", "a.txt" } },
	{ .words = { "grep", "-I", "foo", "sub" } },
	{ .words = { "grep", "-H", "-I", "foo", "a.txt" } },
	{ .words = { "grep", "--no-filename", "-n", "foo", "a.txt", "b.c" } },
	{ .words = { "grep", "--column", "foo", "sub" } },
	{ .words = { "grep", "--column", "-N", "foo", "sub" } },
	{ .words = { "grep", "-b", "foo", "sub" } },
	{ .words = { "grep", "-nb", "--column", "foo", "a.txt" } },
	{ .words = { "grep", "-nb", "--column", "-C1", "foo", "sub" } },
	{ .words = { "grep", "-o", "foo", "sub", "a.txt" } },
	{ .words = { "grep", "-onb", "--column", "foo", "a.txt" } },
	{ .words = { "grep", "-o", "[a-z]*o", "words.txt" } },
	{ .words = { "grep", "-ob", "fo*", "words.txt", "a.txt" } },
	{ .words = { "grep", "-o", "x*", "sub/m.txt" } },
	{ .words = { "grep", "", "a.txt" } },
	{ .words = { "grep", "^", "newlines.txt" } },
	{ .words = { "grep", "^$", "a.txt" } },
	{ .words = { "grep", "-c", "^$", "newlines.txt" } },
	{ .words = { "grep", "x*", "a.txt" } },
	{ .words = { "grep", "-i", "FOO", "sub", "b.h" } },
	{ .words = { "grep", "-i", "gr\xc3\x9c", "utf8.txt" } },
	{ .words = { "grep", "-S", "foo", "b.h", "sub" } },
	{ .words = { "grep", "-S", "Foo", "b.h", "sub" } },
	{ .words = { "grep", "-i", "-s", "Foo", "b.h" } },
	{ .words = { "grep", "-s", "-i", "Foo", "b.h" } },
	{ .words = { "grep", "-w", "foo", "b.h", "words.txt" } },
	{ .words = { "grep", "-x", "foo", "a.txt", "long.txt" } },
	{ .words = { "grep", "-x", "-w", "foo", "a.txt" } },
	{ .words = { "grep", "-w", "-x", "foo", "a.txt" } },
	{ .words = { "grep", "-wi", "foo", "b.h" } },
	{ .words = { "grep", "-v", "foo", "a.txt", "sub/m.txt" } },
	{ .words = { "grep", "-vn", "foo", "sub" } },
	{ .words = { "grep", "-v", "--column", "foo", "a.txt" } },
	{ .words = { "grep", "-vo", "foo", "a.txt" } },
	{ .words = { "grep", "-vc", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "-vl", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "-v", "-C1", "-N", "--color=never", "--no-heading", "foo", "a.txt" } },
	{ .words = { "grep", "-c", "foo", "a.txt" } },
	{ .words = { "grep", "-c", "foo", "sub" } },
	{ .words = { "grep", "-cH", "foo", "a.txt" } },
	{ .words = { "grep", "-cI", "foo", "sub" } },
	{ .words = { "grep", "-co", "foo", "a.txt", "words.txt" } },
	{ .words = { "grep", "-lc", "foo", "sub" } },
	{ .words = { "grep", "--count-matches", "foo", "a.txt", "words.txt" } },
	{ .words = { "grep", "--count-matches", "-v", "foo", "a.txt" } },
	{ .words = { "grep", "--count-matches", "-c", "foo", "a.txt" } },
	{ .words = { "grep", "-c", "--count-matches", "foo", "a.txt" } },
	{ .words = { "grep", "-l", "foo" } },
	{ .words = { "grep", "-l", "foo", "a.txt" } },
	{ .words = { "grep", "-l", "-C2", "--heading", "foo", "sub" } },
	{ .words = { "grep", "-L", "two", "sub" }, .theirs = "--files-without-match" },
	{ .words = { "grep", "-L", "import", "sub", "a.txt" }, .theirs = "--files-without-match" },
	{ .words = { "grep", "-q", "foo" } },
	{ .words = { "grep", "-q", "nowhere-at-all" } },
	{ .words = { "grep", "-0", "foo", "sub" } },
	{ .words = { "grep", "-0l", "foo", "sub" } },
	{ .words = { "grep", "-0c", "foo", "sub" } },
	{ .words = { "grep", "-0", "-C1", "bar", "sub" } },
	{ .words = { "grep", "-0", "--heading", "foo", "sub" } },
	{ .words = { "grep", "-A1", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "-B1", "-n", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "-C1", "foo", "sub" } },
	{ .words = { "grep", "-C", "1", "-n", "--column", "foo", "a.txt" } },
	{ .words = { "grep", "-A2", "-B1", "baz", "a.txt" } },
	{ .words = { "grep", "-A1", "-C3", "baz", "a.txt" } },
	{ .words = { "grep", "-C3", "-A1", "baz", "a.txt" } },
	{ .words = { "grep", "-C2", "-B0", "baz", "a.txt" } },
	{ .words = { "grep", "-C0", "foo", "a.txt" } },
	{ .words = { "grep", "--context=1", "-o", "foo", "sub/m.txt" } },
	{ .words = { "grep", "-C100", "four", "sub/m.txt" } },
	{ .words = { "grep", "-c", "-C3", "foo", "sub" } },
	{ .words = { "grep", "-m1", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "-m1", "-c", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "-m2", "-A1", "foo", "a.txt" } },
	{ .words = { "grep", "--max-count", "1", "--count-matches", "foo", "words.txt" } },
	{ .words = { "grep", "--heading", "foo", "a.txt" } },
	{ .words = { "grep", "--heading", "-H", "foo", "a.txt" } },
	{ .words = { "grep", "--heading", "foo", "a.txt", "sub" } },
	{ .words = { "grep", "--heading", "-n", "-C1", "bar", "a.txt", "sub" } },
	{ .words = { "grep", "--heading", "--no-heading", "foo", "sub" } },
	{ .words = { "grep", "--no-heading", "--heading", "foo", "sub" } },
	{ .words = { "grep", "--color", "always", "foo", "a.txt", "words.txt" } },
	{ .words = { "grep", "--color", "always", "-n", "--column", "-b", "-C1", "foo", "sub" } },
	{ .words = { "grep", "--color=always", "-l", "foo", "sub" } },
	{ .words = { "grep", "--color=always", "-0l", "foo", "sub" } },
	{ .words = { "grep", "--color=always", "-c", "foo", "sub" } },
	{ .words = { "grep", "--color=always", "-o", "fo+", "words.txt", "a.txt" } },
	{ .words = { "grep", "--color=always", "x*", "words.txt" } },
	{ .words = { "grep", "--color=always", "-M20", "foo", "long.txt" } },
	{ .words = { "grep", "--color=never", "-n", "foo", "sub" } },
	{ .words = { "grep", "--color=auto", "foo", "sub" } },
	{ .words = { "grep", "-M10", "foo", "a.txt", "long.txt" } },
	{ .words = { "grep", "-M11", "foo", "a.txt" } },
	{ .words = { "grep", "-M12", "foo", "a.txt" } },
	{ .words = { "grep", "-M10", "-n", "--column", "foo", "long.txt", "a.txt" } },
	{ .words = { "grep", "-M10", "-C1", "bar", "a.txt", "long.txt" } },
	{ .words = { "grep", "-M2", "-o", "foo", "a.txt" } },
	{ .words = { "grep", "-M3", "-o", "foo", "a.txt" } },
	{ .words = { "grep", "-M0", "foo", "long.txt" } },
	{ .words = { "grep", "--max-columns", "1000", "foo", "long.txt" } },
	{ .words = { "grep", "-F", "foo.bar", "words.txt" } },
	{ .words = { "grep", "-F", "a.b", "words.txt" } },
	{ .words = { "grep", "-F", "(", "b.c", "b.h" } },
	{ .words = { "grep", "-Fi", "FOO.B", "words.txt" } },
	{ .words = { "grep", "-Fx", "foo", "a.txt", "long.txt" } },
	{ .words = { "grep", "-Fw", "foo", "words.txt", "b.h" } },
	{ .words = { "grep", "-e", "foo", "-e", "bar", "a.txt" } },
	{ .words = { "grep", "-e", "two", "-e", "import", "sub" } },
	{ .words = { "grep", "-e", "-foo", "words.txt" } },
	{ .words = { "grep", "-n", "-e", "baz", "a.txt" } },
	{ .words = { "grep", "--regexp=qux|baz", "a.txt" } },
	{ .words = { "grep", "-F", "-e", "a.b", "-e", "(void)", "words.txt", "b.h" } },
	{ .words = { "grep", "-on", "-e", "fo", "-e", "foo", "words.txt" } },
	{ .words = { "grep", "--", "-foo", "words.txt" } },
	{ .words = { "grep", "foo", "-n", "sub", "-w" } },
	{ .words = { "grep", "-U", "foo\\nbar", "a.txt", "sub" } },
	{ .words = { "grep", "-Un", "foo\\nbar", "a.txt", "sub" } },
	{ .words = { "grep", "-U", "-C1", "foo\\nbar", "a.txt", "sub" } },
	{ .words = { "grep", "-Uc", "foo\\nbar", "a.txt", "sub" } },
	{ .words = { "grep", "-U", "--count-matches", "foo\\nbar", "a.txt", "sub" } },
	{ .words = { "grep", "-Ul", "foo\\nbar", "a.txt", "sub" } },
	{ .words = { "grep", "-U", "--multiline-dotall", "foo.bar", "a.txt", "sub" } },
	{ .words = { "grep", "-U", "foo.bar", "a.txt", "words.txt" } },
	{ .words = { "grep", "--multiline-dotall", "foo.bar", "a.txt", "words.txt" } },
	{ .words = { "grep", "-U", "--color=always", "-n", "foo\\nbar", "sub" } },
	{ .words = { "grep", "-Uo", "foo\\nbar", "a.txt" } },
	{ .words = { "grep", "fo{2}", "a.txt" } },
	{ .words = { "grep", "(f)(o)o", "a.txt" } },
	{ .words = { "grep", "\\bfoo\\b", "words.txt" } },
	{ .words = { "grep", "\\w+\\(", "b.c" } },
	{ .words = { "grep", "\\t", "b.c" } },
	{ .words = { "grep", "foo$", "a.txt", "crlf.txt" }, .pipe_only = true },
	{ .words = { "grep", "foo", "crlf.txt" } },
	{ .words = { "grep", "-C1", "bar", "crlf.txt" } },
	{ .words = { "grep", "foo", "utf16.txt" } },
	{ .words = { "grep", "foo", "utf8.txt" } },
	{ .words = { "grep", "gr.n", "utf8.txt" } },
	{ .words = { "grep", "foo", "latin1.txt" }, .pipe_only = true },
	{ .words = { "grep", "-o", "gr.+foo", "utf8.txt" } },
	{ .words = { "grep", "foo", "bin.dat" } },
	{ .words = { "grep", "-c", "foo", "bin.dat" } },
	{ .words = { "grep", "-l", "foo", "bin.dat" } },
	{ .words = { "grep", "-H", "foo", "bin.dat" } },
	{ .words = { "grep", "foo", "bin.dat", "a.txt" } },
	{ .words = { "grep", "foo", "a.txt", "bin.dat" } },
	{ .words = { "grep", "--heading", "foo", "a.txt", "bin.dat", "b.c" } },
	{ .words = { "grep", "-q", "foo", "bin.dat" } },
	{ .words = { "grep", "-a", "foo", "bin.dat" }, .pipe_only = true },
	{ .words = { "grep", "-ac", "foo", "bin.dat" } },
	{ .words = { "grep", "-g", "*.c", "foo" } },
	{ .words = { "grep", "-g", "*.{c,h}", "foo" } },
	{ .words = { "grep", "-g", "!*.txt", "foo" } },
	{ .words = { "grep", "-g", "*.txt", "-g", "!a*", "foo", "-l" } },
	{ .words = { "grep", "-g", "sub/**", "foo" } },
	{ .words = { "grep", "-g", "**/deep/*", "foo" } },
	{ .words = { "grep", "-g", "*.log", "foo" } },
	{ .words = { "grep", "-g", "*.c", "foo", "a.txt" } },
	{ .words = { "grep", "--iglob", "*.txt", "FOO" } },
	{ .words = { "grep", "--glob-case-insensitive", "-g", "*.Txt", "FOO" } },
	{ .words = { "grep", "-tc", "foo" } },
	{ .words = { "grep", "-t", "py", "-t", "c", "foo" } },
	{ .words = { "grep", "-Tc", "-Ttxt", "foo" } },
	{ .words = { "grep", "--type", "txt", "-l", "foo" } },
	{ .words = { "grep", "--type-not=txt", "-l", "foo" } },
	{ .words = { "grep", "-l", "--hidden", "foo" } },
	{ .words = { "grep", "-l", "-.", "foo" } },
	{ .words = { "grep", "-l", "--no-ignore", "foo" } },
	{ .words = { "grep", "-l", "--no-ignore-vcs", "foo" } },
	{ .words = { "grep", "-l", "--no-ignore-dot", "foo" } },
	{ .words = { "grep", "-l", "--no-ignore-exclude", "foo" } },
	{ .words = { "grep", "-l", "--no-ignore-global", "foo" } },
	{ .words = { "grep", "-l", "--no-ignore-parent", "foo", "sub" } },
	{ .words = { "grep", "-l", "--no-require-git", "foo" } },
	{ .words = { "grep", "-lu", "foo" } },
	{ .words = { "grep", "-luu", "foo" } },
	{ .words = { "grep", "-l", "--max-depth", "1", "foo" } },
	{ .words = { "grep", "-l", "--max-depth=2", "foo" } },
	{ .words = { "grep", "--one-file-system", "-l", "foo" } },
	{ .words = { "grep", "--type-list" } },
	{ .words = { "grep", "-t", "no-such-type", "foo" } },
	{ .words = { "grep", "(", "a.txt" } },
	{ .words = { "grep", "-g", "a{", "foo" } },
	{ .words = { "grep", "-g", "[", "foo" } },
	{ .words = { "glob", "*.txt" } },
	{ .words = { "glob", "*.txt", "sub" } },
	{ .words = { "glob", "*.txt", "sub/", "." } },
	{ .words = { "glob", "sub/**" } },
	{ .words = { "glob", "**/*.{c,py}" } },
	{ .words = { "glob", "!*.txt" } },
	{ .words = { "glob", "*.none" } },
	{ .words = { "glob", "*", "a.txt" } },
	{ .words = { "glob", "*.TXT" } },
	{ .words = { "glob", "*.TXT", "--glob-case-insensitive" } },
	{ .words = { "glob", "-0", "*.txt" } },
	{ .words = { "glob", "--hidden", "*" } },
	{ .words = { "glob", "--no-ignore", "*" } },
	{ .words = { "glob", "-uu", "*.txt" } },
	{ .words = { "glob", "-tc", "*" } },
	{ .words = { "glob", "--max-depth", "1", "*" } },
	{ .words = { "glob", "*", "missing" } },
	{ .words = { "glob", "*.txt", "--color=always" } },
	{ .words = { "glob", "-q", "*.txt" } },
	/* clang-format on */
};

/* Translate the words into ripgrep's. */
static void
their_words(const struct same *one, const char **argv)
{
	bool glob = strcmp(one->words[0], "glob") == 0, searched = !glob;
	size_t n = 0;

	argv[n++] = "rg";
	argv[n++] = "--no-config";
	argv[n++] = "--sort=path";
	if (glob)
		argv[n++] = "--files";
	for (size_t i = 1; i < WORDS_MAX && one->words[i] != NULL; i++) {
		const char *word = one->words[i];

		if (i == 1 && one->theirs != NULL) {
			argv[n++] = one->theirs;
		} else if (!searched && word[0] != '-' &&
		    (i == 1 || strcmp(one->words[i - 1], "--max-depth") != 0)) {
			argv[n++] = "-g";
			argv[n++] = word;
			searched = true;
		} else {
			argv[n++] = word;
		}
	}
	argv[n] = NULL;
}

static void
compare(const struct same *one, enum output output)
{
	const char *theirs[WORDS_MAX + 8], *ours[WORDS_MAX + 3] = { program, "fs" };
	struct run rg = { .output = output }, koda = { .output = output };

	for (size_t i = 0; i < WORDS_MAX && one->words[i] != NULL; i++)
		ours[i + 2] = one->words[i];
	their_words(one, theirs);
	run_v(&rg, theirs);
	run_v(&koda, ours);
	if (koda.out_len != rg.out_len || memcmp(koda.out, rg.out, rg.out_len) != 0)
		fail_msg("ours:\n%s\ntheirs:\n%s\nand we said: %s", koda.out, rg.out, koda.err);
	if (koda.status != rg.status)
		fail_msg("status %d, theirs %d, saying: %s", koda.status, rg.status, koda.err);
	run_done(&rg);
	run_done(&koda);
}

static void
test_pipe(void **state)
{
	compare(*state, TO_FILE);
}

static void
test_terminal(void **state)
{
	compare(*state, TO_TERMINAL);
}

/* ---- where it differs, and what ripgrep lacks ---- */

static const struct {
	const char *label, *words[WORDS_MAX];
	int status;
	const char *out, *err; /* the whole output; a part of it, or NULL: nothing */
} ours[] = {
	/* clang-format off */
	{ "look-around, which is PCRE's", { "grep", "(?<=x )foo", "crlf.txt", "a.txt" }, 0, "crlf.txt:x foo\r\na.txt:qux foo\n", NULL },
	{ "a back-reference", { "grep", "-o", "(fo+)\\1", "words.txt" }, 0, "foofoo\n", NULL },
	{ "no file without a match", { "grep", "-L", "o", "a.txt" }, 1, "", NULL },
	{ "--limit", { "grep", "--limit", "2", "foo", "sub", "a.txt" }, 0, "sub/deep/d.txt:deep foo\nsub/m.txt:two foo\n", "there are more" },
	{ "--limit that is just enough", { "grep", "--limit", "1", "deep", "sub" }, 0, "sub/deep/d.txt:deep foo\n", NULL },
	{ "--limit of files", { "glob", "--limit", "1", "*.txt", "sub" }, 0, "sub/deep/d.txt\n", "there are more" },
	{ "a long line around its match", { "grep", "-M", "20", "--max-columns-preview", "-m1", "-o", "foo", "a.txt" }, 0, "foo\n", NULL },
	{ "glob -i", { "glob", "-i", "*.TXT", "sub/other" }, 0, "sub/other/O.TXT\n", NULL },
	{ "an option that glob has not", { "glob", "-A3", "*" }, 2, "", "unknown option '-A3'" },
	{ "a letter of rg that means something else here", { "grep", "-f", "x", "y" }, 2, "", "does not take -f (--overwrite)" },
	{ "an unknown option", { "grep", "--hiden", "x" }, 2, "", "did you mean '--hidden'" },
	{ "no pattern", { "grep" }, 2, "", "grep needs a REGEX" },
	{ "no number", { "grep", "-A", "x", "foo" }, 2, "", "--after-context needs a number" },
	{ "an unknown type", { "grep", "-t", "cobolt", "foo" }, 2, "", "no file type 'cobolt'" },
	{ "a bad pattern", { "grep", "foo(", "a.txt" }, 2, "", "koda-sandbox: " },
	{ "a bad glob", { "glob", "a[" }, 2, "", "koda-sandbox: " },
	{ "a place that is missing", { "grep", "foo", "missing" }, 2, "", "missing" },
	{ "one of two is missing", { "grep", "foo", "missing", "keep.log" }, 2, "keep.log:foo\n", "missing" },
	{ "a place above the root", { "grep", "foo", "../elsewhere" }, 2, "", "koda-sandbox: " },
	{ "an empty place", { "grep", "foo", "" }, 2, "", "koda-sandbox: " },
	{ "tree", { "tree", "sub" }, 0,
	    "         103  sub/  (4 files)\n"
	    "           9    deep/  (1 file)\n"
	    "           9      d.txt\n"
	    "          35    m.txt\n"
	    "          14    other/  (1 file)\n"
	    "          14      O.TXT\n"
	    "          45    x.py\n", NULL },
	{ "tree -d", { "tree", "-d1", "sub" }, 0,
	    "         103  sub/  (4 files)\n"
	    "           9    deep/  (1 file)\n"
	    "          35    m.txt\n"
	    "          14    other/  (1 file)\n"
	    "          45    x.py\n", NULL },
	{ "tree of a file", { "tree", "a.txt" }, 0, "          32  a.txt\n", NULL },
	{ "tree -g", { "tree", "-g", "*.py", "sub" }, 0, "          45  sub/  (1 file)\n          45    x.py\n", NULL },
	{ "help", { "grep", "--help" }, 0, NULL, NULL },
	/* clang-format on */
};

static void
test_ours(void **state)
{
	size_t i = (uintptr_t)*state, n = 2;
	const char *argv[WORDS_MAX + 3] = { program, "fs" };
	struct run r = { 0 };

	for (; n - 2 < WORDS_MAX && ours[i].words[n - 2] != NULL; n++)
		argv[n] = ours[i].words[n - 2];
	run_v(&r, argv);
	ended(&r, ours[i].status);
	if (ours[i].out != NULL)
		printed(&r, ours[i].out);
	if (ours[i].err != NULL)
		said(&r, ours[i].err);
	else
		assert_string_equal(r.err, "");
	run_done(&r);
}

/* The order differs from --sort path: by the bytes of whole paths. */
static void
test_order(void **state)
{
	struct run r = { 0 };

	shell("cd \"$1\" && mkdir -p o/a && : >o/a-b && : >o/a/x && : >o/a.c && : >o/B", project,
	    NULL, NULL);
	run(&r, "glob", "*", "o", NULL);
	ended(&r, 0);
	printed(&r, "o/B\no/a-b\no/a.c\no/a/x\n");
	run_done(&r);
}

static void
test_newest(void **state)
{
	struct run r = { 0 }, json = { 0 };

	shell(
	    "mkdir \"$1/n\" && cd \"$1/n\" && touch -d @1000000000 old && touch -d @1000000001 new && "
	    "touch -d @999999999 oldest",
	    project, NULL, NULL);
	run(&r, "glob", "--newest", "*", "n", NULL);
	ended(&r, 0);
	printed(&r, "n/new\nn/old\nn/oldest\n");
	run_done(&r);
	run(&json, "glob", "--newest", "--json", "new", "n", NULL);
	ended(&json, 0);
	assert_non_null(strstr(json.out, "\"mtime_ns\":1000000001000000000"));
	run_done(&json);
}

/* The current directory is below the root, beside it, or gone. */
static void
test_where(void **state)
{
	char sub[PATH_MAX + 8], absolute[2 * PATH_MAX], want[2 * PATH_MAX];
	struct run below = { 0 }, up = { 0 }, other = { 0 }, full = { 0 };

	snprintf(sub, sizeof(sub), "%s/sub", project);
	below.cwd = up.cwd = sub;
	run(&below, "--root", project, "grep", "-l", "foo", NULL);
	ended(&below, 0);
	printed(&below, "deep/d.txt\nm.txt\nx.py\n");
	run(&up, "--root", project, "grep", "-c", "foo", "../a.txt", NULL);
	ended(&up, 0);
	printed(&up, "3\n");
	other.cwd = home;
	run(&other, "--root", project, "glob", "*", NULL);
	ended(&other, 1);
	snprintf(absolute, sizeof(absolute), "%s/deep", sub);
	snprintf(want, sizeof(want), "%s/d.txt\n", absolute);
	full.cwd = home;
	run(&full, "--root", project, "glob", "*", absolute, NULL);
	ended(&full, 0);
	printed(&full, want);
	run_done(&below);
	run_done(&up);
	run_done(&other);
	run_done(&full);
}

/* ---- what may not be read ---- */

static void
test_hidden_by_policy(void **state)
{
	struct run in = { .cwd = home }, at = { .cwd = home }, json = { .cwd = home };

	shell("mkdir -p \"$1/.config/koda/db\" && echo foo >\"$1/.config/koda/db/secret\" && "
	      "echo foo >\"$1/.config/koda/plain\"",
	    home, NULL, NULL);
	run(&in, "grep", "-.", "foo", ".config", NULL);
	ended(&in, 0);
	printed(&in, ".config/koda/plain:foo\n");
	said(&in, "1 hidden by the policy");
	run(&at, "grep", "foo", ".config/koda/db", NULL);
	ended(&at, 2);
	printed(&at, "");
	said(&at, "refused to read");
	run(&json, "grep", "--json", "foo", ".config/koda/db", NULL);
	ended(&json, 2);
	assert_non_null(strstr(json.out, "\"code\":\"policy_denied\""));
	run_done(&in);
	run_done(&at);
	run_done(&json);
}

static void
test_unreadable(void **state)
{
	struct run r = { 0 }, json = { 0 };

	shell("mkdir -p \"$1/closed\" && echo foo >\"$1/open\" && chmod 0 \"$1/closed\"", project,
	    NULL, NULL);
	run(&r, "grep", "foo", "open", "closed", NULL);
	run(&json, "grep", "--json", "foo", "open", "closed", NULL);
	shell("chmod 755 \"$1/closed\"", project, NULL, NULL);
	ended(&r, 2);
	printed(&r, "open:foo\n");
	said(&r, "closed");
	ended(&json, 2);
	assert_non_null(strstr(json.out, "\"type\":\"trouble\""));
	run_done(&r);
	run_done(&json);
}

/* ---- JSON ---- */

/* Return the next line, parsed as an object. */
static json_t *
next_object(const char **at)
{
	const char *end = strchr(*at, '\n');
	json_error_t e;
	json_t *ret;

	assert_non_null(end);
	ret = json_loadb(*at, (size_t)(end - *at), JSON_REJECT_DUPLICATES, &e);
	if (ret == NULL)
		fail_msg("no JSON (%s): %s", e.text, *at);
	*at = end + 1;
	return ret;
}

static const char *
text_at(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t
number_at(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static void
test_json_grep(void **state)
{
	struct run r = { 0 };
	const char *at;
	json_t *o, *span;

	run(&r, "grep", "--json", "-A1", "bar", "a.txt", NULL);
	ended(&r, 0);
	assert_string_equal(r.err, "");
	at = r.out;
	o = next_object(&at);
	assert_string_equal(text_at(o, "type"), "match");
	assert_string_equal(text_at(o, "path"), "a.txt");
	assert_string_equal(text_at(o, "text"), "bar");
	assert_int_equal(number_at(o, "line"), 2);
	assert_int_equal(number_at(o, "offset"), 4);
	assert_int_equal(json_array_size(json_object_get(o, "spans")), 1);
	json_decref(o);
	o = next_object(&at);
	assert_int_equal(number_at(o, "line"), 3);
	span = json_array_get(json_object_get(o, "spans"), 0);
	assert_int_equal(json_integer_value(json_array_get(span, 0)), 4);
	assert_int_equal(json_integer_value(json_array_get(span, 1)), 7);
	json_decref(o);
	o = next_object(&at);
	assert_string_equal(text_at(o, "type"), "context");
	assert_null(json_object_get(o, "spans"));
	json_decref(o);
	o = next_object(&at);
	assert_string_equal(text_at(o, "type"), "summary");
	assert_true(json_is_true(json_object_get(o, "ok")));
	assert_true(json_is_false(json_object_get(o, "more")));
	assert_int_equal(number_at(o, "found"), 2);
	assert_int_equal(number_at(o, "matches"), 2);
	assert_int_equal(number_at(o, "files"), 1);
	assert_int_equal(number_at(o, "files_matched"), 1);
	json_decref(o);
	assert_string_equal(at, "");
	run_done(&r);
}

/* Bytes that are not UTF-8 are kept whole, also in names. */
static void
test_json_bytes(void **state)
{
	struct run line = { 0 }, name = { 0 };
	const char *at;
	json_t *o;

	run(&line, "grep", "--json", "foo", "latin1.txt", NULL);
	ended(&line, 0);
	at = line.out;
	o = next_object(&at);
	assert_null(json_object_get(o, "text"));
	assert_string_equal(text_at(o, "bytes"), "Z3L8biBmb28g/w==");
	json_decref(o);
	run_done(&line);

	shell("mkdir \"$1/names\" && : >\"$1/names/$(printf 'a\\377\\nb')\"", project, NULL, NULL);
	run(&name, "glob", "--json", "*", "names", NULL);
	ended(&name, 0);
	at = name.out;
	o = next_object(&at);
	assert_string_equal(text_at(o, "type"), "file");
	assert_string_equal(text_at(o, "path"), "names/a\xef\xbf\xbd\nb");
	assert_string_equal(text_at(o, "path_base64"), "bmFtZXMvYf8KYg==");
	json_decref(o);
	run_done(&name);
}

static void
test_json_others(void **state)
{
	static const struct {
		const char *words[WORDS_MAX], *type, *key;
		json_int_t value;
	} kinds[] = {
		{ { "grep", "--json", "-c", "foo", "a.txt" }, "count", "count", 3 },
		{ { "grep", "--json", "foo", "bin.dat" }, "binary", "offset", 9 },
		{ { "tree", "--json", "sub/deep" }, "entry", "files", 1 },
		{ { "grep", "--json", "nowhere", "a.txt" }, "summary", "files", 1 },
		{ { "grep", "--json", "-M20", "--max-columns-preview", "0 foo", "long.txt" },
		    "match", "cut_before", 0 },
	};

	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		const char *argv[WORDS_MAX + 3] = { program, "fs" }, *at;
		struct run r = { 0 };
		json_t *o;

		for (size_t n = 0; n < WORDS_MAX && kinds[i].words[n] != NULL; n++)
			argv[n + 2] = kinds[i].words[n];
		run_v(&r, argv);
		at = r.out;
		o = next_object(&at);
		assert_string_equal(text_at(o, "type"), kinds[i].type);
		if (kinds[i].value != 0)
			assert_int_equal(number_at(o, kinds[i].key), kinds[i].value);
		else
			assert_true(number_at(o, kinds[i].key) > 0);
		json_decref(o);
		run_done(&r);
	}
}

static void
test_json_errors(void **state)
{
	struct run pattern = { 0 }, usage = { 0 }, types = { 0 };
	const char *at;
	json_t *o;

	run(&pattern, "grep", "--json", "(", "a.txt", NULL);
	ended(&pattern, 2);
	at = pattern.out;
	o = next_object(&at);
	assert_true(json_is_false(json_object_get(o, "ok")));
	assert_string_equal(text_at(json_object_get(o, "error"), "code"), "invalid");
	json_decref(o);
	assert_string_equal(at, "");

	run(&usage, "grep", "--no-such", "--json", NULL);
	ended(&usage, 2);
	at = usage.out;
	o = next_object(&at);
	assert_string_equal(text_at(json_object_get(o, "error"), "code"), "usage");
	json_decref(o);

	run(&types, "grep", "--type-list", "--json", NULL);
	ended(&types, 0);
	at = types.out;
	o = next_object(&at);
	assert_true(json_array_size(json_object_get(json_object_get(o, "types"), "make")) > 0);
	json_decref(o);
	run_done(&pattern);
	run_done(&usage);
	run_done(&types);
}

/* ---- terminals, readers that leave, signals ---- */

static void
test_hostile(void **state)
{
	struct run names = { .output = TO_TERMINAL }, lines = { .output = TO_TERMINAL },
		   json = { .output = TO_TERMINAL }, raw = { 0 };

	shell(
	    "mkdir \"$1/evil\" && cd \"$1/evil\" && printf 'foo\\033]0;x\\007\\n' >\"$(printf 'e\\033[2J\\ny')\"",
	    project, NULL, NULL);
	run(&names, "glob", "*", "evil", "--color=never", NULL);
	printed(&names, "evil/e\\x1b[2J\\x0ay\n");
	run(&lines, "grep", "foo", "evil", "--color=never", NULL);
	printed(&lines, "evil/e\\x1b[2J\\x0ay\n1:foo\\x1b]0;x\\x07\n");
	run(&json, "grep", "foo", "evil", "--json", NULL);
	assert_null(strchr(json.out, '\033'));
	run(&raw, "grep", "foo", "evil", NULL);
	printed(&raw, "evil/e\033[2J\ny:foo\033]0;x\007\n");
	run_done(&names);
	run_done(&lines);
	run_done(&json);
	run_done(&raw);
}

static void
test_no_color(void **state)
{
	struct run r = { .output = TO_TERMINAL };
	const char *argv[] = { "env", "NO_COLOR=1", program, "fs", "grep", "foo", "sub/m.txt",
		NULL };

	run_v(&r, argv);
	ended(&r, 0);
	printed(&r, "2:two foo\n5:foo\n");
	run_done(&r);
}

static void
put_large(void)
{
	shell(
	    "cd \"$1\" && awk 'BEGIN { for (i = 0; i < 400000; i++) print \"foo \" i }' >large.txt",
	    project, NULL, NULL);
}

/* No process of it is left, not even its worker. */
static void
nobody_left(void)
{
	while (waitpid(-1, NULL, 0) > 0)
		;
	assert_int_equal(errno, ECHILD);
}

static void
test_reader_gone(void **state)
{
	const char *argv[] = { "sh", "-c",
		"trap '' PIPE; { \"$0\" fs grep foo large.txt; echo $? >&2; } | head -n1", program,
		NULL };
	struct run r = { 0 };

	put_large();
	run_v(&r, argv);
	ended(&r, 0);
	printed(&r, "foo 0\n");
	assert_string_equal(r.err, "0\n");
	run_done(&r);
}

static void
test_full(void **state)
{
	const char *argv[] = { "sh", "-c", "exec \"$0\" fs grep foo large.txt >/dev/full", program,
		NULL };
	struct run r = { 0 };

	put_large();
	run_v(&r, argv);
	ended(&r, 2);
	said(&r, "No space left");
	run_done(&r);
}

/* Stuck writing to a pipe that is not read, the program still ends on SIGINT, and so does what
 * it started. */
static void
test_interrupt(void **state)
{
	const char *argv[] = { program, "fs", "grep", "foo", "large.txt", NULL };
	int err = memfd_create("err", MFD_CLOEXEC), out[2];
	struct pollfd p;
	pid_t pid;

	put_large();
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = start(NULL, argv, out[1], err);
	close(out[1]);
	p = (struct pollfd){ .fd = out[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, HANG_SECONDS * 1000), 1);
	assert_int_equal(kill(pid, SIGINT), 0);
	assert_int_equal(status_of(pid), -SIGINT);
	nobody_left();
	close(out[0]);
	close(err);
}

/* ---- */

static int
make_project(void **state)
{
	shell("rm -rf \"$1\" && mkdir \"$1\"", project, NULL, NULL);
	shell(fixture, project, NULL, NULL);
	return 0;
}

static int
make_scene(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX - 64];

	/* Otherwise one of the test's descriptors would get that number. */
	while (fcntl(STDIN_FILENO, F_GETFD) < 0)
		assert_int_equal(open("/dev/null", O_RDONLY), STDIN_FILENO);
	snprintf(name, sizeof(name), "%s/koda-search.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(name) == NULL || realpath(name, prefix) == NULL)
		return -1;
	snprintf(program, sizeof(program), "%.*s/bin/koda-sandbox", PATH_MAX - 32, prefix);
	snprintf(project, sizeof(project), "%.*s/project", PATH_MAX - 32, prefix);
	snprintf(home, sizeof(home), "%.*s/home", PATH_MAX - 32, prefix);
	shell(
	    "cd \"$1\" && mkdir -p bin libexec/koda-sandbox home && cp \"$2/cli/koda-sandbox\" bin && "
	    "cp \"$2/worker/koda-fs-worker\" \"$2/search/koda-fs-search\" libexec/koda-sandbox",
	    prefix, KODA_TEST_BUILD_DIR, NULL);
	return make_project(state);
}

static int
remove_scene(void **state)
{
	shell("rm -rf \"$1\"", prefix, NULL, NULL);
	return 0;
}

/* Name a case by its words. */
static void
label_of(char *buf, size_t size, const struct same *one, const char *where)
{
	size_t n = (size_t)snprintf(buf, size, "%s", one->words[0]);

	for (size_t i = 1; i < WORDS_MAX && one->words[i] != NULL && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, " %s", one->words[i]);
	if (n < size)
		snprintf(buf + n, size - n, ", %s", where);
	for (char *p = buf; *p != '\0'; p++) {
		if ((unsigned char)*p >= 0x80 || *p == '#')
			*p = '?'; /* the label is part of a TAP line */
	}
}

#define TEST(fn) cmocka_unit_test_setup(fn, make_project)

int
main(void)
{
	static const struct CMUnitTest single[] = {
		TEST(test_order),
		TEST(test_newest),
		TEST(test_where),
		TEST(test_hidden_by_policy),
		TEST(test_unreadable),
		TEST(test_json_grep),
		TEST(test_json_bytes),
		TEST(test_json_others),
		TEST(test_json_errors),
		TEST(test_hostile),
		TEST(test_no_color),
		TEST(test_reader_gone),
		TEST(test_full),
		TEST(test_interrupt),
	};
	static struct CMUnitTest
	    tests[N_ELEMENTS(single) + N_ELEMENTS(ours) + 2 * N_ELEMENTS(same)];
	static char labels[2 * N_ELEMENTS(same)][160];
	size_t n = 0, n_labels = 0;

	for (size_t i = 0; i < N_ELEMENTS(same); i++) {
		label_of(labels[n_labels], sizeof(labels[0]), &same[i], "in a pipe");
		tests[n++] = (struct CMUnitTest){ labels[n_labels++], test_pipe, NULL, NULL,
			(void *)(uintptr_t)&same[i] };
		if (same[i].pipe_only)
			continue;
		label_of(labels[n_labels], sizeof(labels[0]), &same[i], "on a terminal");
		tests[n++] = (struct CMUnitTest){ labels[n_labels++], test_terminal, NULL, NULL,
			(void *)(uintptr_t)&same[i] };
	}
	CASES(ours, test_ours);
	/* These tests change the tree. */
	OTHERS(single);
	return _cmocka_run_group_tests("search_cli", tests, n, make_scene, remove_scene);
}
