/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search/walk.c: the walk over real directories: which files it reports, in which order, and
 * what it asks before.
 */
#include "tests/kit/cases.h"
#include "tests/kit/walking.h"

/* ---- what is chosen ---- */

#define HIDDEN   KODA_SEARCH_HIDDEN
#define ANYWHERE KODA_SEARCH_NO_REQUIRE_GIT

#define NO_GIT     KODA_SEARCH_NO_GITIGNORE
#define NO_DOT     KODA_SEARCH_NO_DOT_IGNORE
#define NO_EXCLUDE KODA_SEARCH_NO_EXCLUDE

/* clang-format off */
static const struct {
	const char *label;
	unsigned flags;
	const char *tree[10];
	const char *glob[3], *type[2], *type_not[2], *global;
	unsigned max_depth;
	const char *want;
} cases[] = {
	{ .label = "empty", .want = "" },
	{ .label = "order of whole paths", .tree = { "a/x", "a.c", "a-b", "a0", "ab/c", "a/b/c" },
	    .want = "a-b a.c a/b/c a/x a0 ab/c " },
	{ .label = "order beyond the first bytes", .tree = { "aaaaaaaaab", "aaaaaaaaa/x", "aaaaaaaaa.c", "aaaaaaaa" },
	    .want = "aaaaaaaa aaaaaaaaa.c aaaaaaaaa/x aaaaaaaaab " },
	{ .label = "no hidden names", .tree = { "a", ".b", ".c/d", "e/.f" }, .want = "a " },
	{ .label = "hidden names", .flags = HIDDEN, .tree = { "a", ".b", ".c/d", "e/.f" }, .want = ".b .c/d a e/.f " },
	{ .label = ".gitignore outside of a repository", .tree = { ".gitignore=a", "a", "b" }, .want = "a b " },
	{ .label = ".gitignore wherever it is", .flags = ANYWHERE, .tree = { ".gitignore=a", "a", "b" }, .want = "b " },
	{ .label = ".gitignore in a repository", .tree = { ".git/", ".gitignore=a", "a", "b", "c/a" }, .want = "b " },
	{ .label = ".git is a file", .tree = { ".git=gitdir: /x", ".gitignore=a", "a", "b" }, .want = "b " },
	{ .label = "no .gitignore", .flags = NO_GIT, .tree = { ".git/", ".gitignore=a", "a" }, .want = "a " },
	{ .label = "nested .gitignore", .flags = ANYWHERE, .tree = { ".gitignore=*.o", "a.o", "b/.gitignore=!k.o\n/x", "b/k.o", "b/x", "b/c/x" },
	    .want = "b/c/x b/k.o " },
	{ .label = "an ignored directory is not entered", .flags = ANYWHERE, .tree = { ".gitignore=d/\n!d/a", "d/a", "d/.gitignore=!*" },
	    .want = "" },
	{ .label = "rules do not reach into a nested repository", .tree = { ".git/", ".gitignore=a", "a", "sub/.git/", "sub/a", "sub/b/a" },
	    .want = "sub/a sub/b/a " },
	{ .label = "rules outside decide on the nested repository itself", .tree = { ".git/", ".gitignore=sub", "sub/.git/", "sub/a" },
	    .want = "" },
	{ .label = "a repository does not reach out", .tree = { ".gitignore=a", "a", "sub/.git/", "sub/.gitignore=b", "sub/a", "sub/b", "b" },
	    .want = "a b sub/a " },
	{ .label = "exclude", .tree = { ".git/info/exclude=a\n/b", "a", "b", "c/a", "c/b" }, .want = "c/b " },
	{ .label = ".gitignore before exclude", .tree = { ".git/info/exclude=a", ".gitignore=!a", "a" }, .want = "a " },
	{ .label = "no exclude", .flags = NO_EXCLUDE, .tree = { ".git/info/exclude=a", "a" }, .want = "a " },
	{ .label = "the user's own file", .tree = { ".git/", "a", "b" }, .global = "a\n", .want = "b " },
	{ .label = "the user's own file outside of a repository", .tree = { "a" }, .global = "a\n", .want = "a " },
	{ .label = "the user's own file, switched off", .flags = KODA_SEARCH_NO_GLOBAL, .tree = { ".git/", "a" }, .global = "a\n", .want = "a " },
	{ .label = "the user's own file counts last", .tree = { ".git/info/exclude=!a", "a" }, .global = "a\n", .want = "a " },
	{ .label = "the user's own file, from a work tree's top on", .tree = { ".git/", "a", "s/.git/", "s/a", "s/t/a" }, .global = "/a\n",
	    .want = "s/t/a " },
	{ .label = ".ignore anywhere", .tree = { ".ignore=a", "a", "b" }, .want = "b " },
	{ .label = ".rgignore before .ignore before .gitignore", .flags = ANYWHERE,
	    .tree = { ".rgignore=!a", ".ignore=a\n!b\nc", ".gitignore=b\n!c", "a", "b", "c" }, .want = "a b " },
	{ .label = ".ignore further out before .gitignore further in", .flags = ANYWHERE, .tree = { ".ignore=!a", "s/.gitignore=a", "s/a" },
	    .want = "s/a " },
	{ .label = "no .ignore", .flags = NO_DOT, .tree = { ".ignore=a", ".rgignore=b", "a", "b" }, .want = "a b " },
	{ .label = "kept although hidden", .tree = { ".ignore=!.a", ".a", ".b" }, .want = ".a " },
	{ .label = "glob", .tree = { "a.c", "b.h", "s/c.c", "s/.d.c" }, .glob = { "*.c" }, .want = "a.c s/.d.c s/c.c " },
	{ .label = "glob of paths", .tree = { "a.c", "s/b.c", "s/t/c.c" }, .glob = { "s/**/*.c" }, .want = "s/b.c s/t/c.c " },
	{ .label = "glob before ignore files", .tree = { ".ignore=*", "a.c", "b.h" }, .glob = { "*.c" }, .want = "a.c " },
	{ .label = "a glob of files enters no ignored directory", .tree = { ".ignore=s", "s/a.c" }, .glob = { "*.c" }, .want = "" },
	{ .label = "excluding glob", .tree = { "a.c", "s/b.c", "s/c.h" }, .glob = { "!s" }, .want = "a.c " },
	{ .label = "the last glob decides", .tree = { "a.c", "b.c" }, .glob = { "!a.*", "*.c", "!b.c" }, .want = "a.c " },
	{ .label = "glob without case", .flags = KODA_SEARCH_GLOB_IGNORE_CASE, .tree = { "A.C", "b.c" }, .glob = { "*.C" }, .want = "A.C b.c " },
	{ .label = "glob that leads up", .tree = { "a" }, .glob = { "../*" }, .want = "" },
	{ .label = "absolute glob", .tree = { "etc/passwd", "a" }, .glob = { "/etc/passwd" }, .want = "etc/passwd " },
	{ .label = "type", .tree = { "a.c", "b.py", "s/c.h", "d" }, .type = { "c" }, .want = "a.c s/c.h " },
	{ .label = "types", .tree = { "a.c", "b.py", "c.rs" }, .type = { "c", "py" }, .want = "a.c b.py " },
	{ .label = "not a type", .tree = { "a.c", "b.py", "d" }, .type_not = { "c" }, .want = "b.py d " },
	{ .label = "a type, and not", .tree = { "a.c", "a.h" }, .type = { "c" }, .type_not = { "h" }, .want = "a.c " },
	{ .label = "a type shows hidden names", .tree = { ".a.c", ".b" }, .type = { "c" }, .want = ".a.c " },
	{ .label = "ignored before types", .tree = { ".ignore=a.c", "a.c", "b.c" }, .type = { "c" }, .want = "b.c " },
	{ .label = "depth", .tree = { "a", "s/b", "s/t/c" }, .max_depth = 2, .want = "a s/b " },
	{ .label = "depth of one", .tree = { "a", "s/b" }, .max_depth = 1, .want = "a " },
	{ .label = "hostile names", .tree = { "a\nb", "\xff\xfe", "\xed\xa0\x80/x", "*", "[", "-" },
	    .want = "* - [ a\nb \xed\xa0\x80/x \xff\xfe " },
	{ .label = "a directory of an ignore file's name", .flags = ANYWHERE | HIDDEN, .tree = { ".gitignore/a", ".ignore/a", "a" },
	    .want = ".gitignore/a .ignore/a a " },
	{ .label = "git's own directory is hidden by its dot alone", .flags = HIDDEN, .tree = { ".git/HEAD", "a" }, .want = ".git/HEAD a " },
};
/* clang-format on */

static size_t
count(const char *const *list, size_t max)
{
	size_t n = 0;

	while (n < max && list[n] != NULL)
		n++;
	return n;
}

static void
check_case(void **state)
{
	/* The set-up has it in *state, too. */
	const size_t i = (uintptr_t)*state;
	const struct walk_rules_options o = { .flags = cases[i].flags,
		.globs = cases[i].glob,
		.n_globs = count(cases[i].glob, N_ELEMENTS(cases[i].glob)),
		.types = cases[i].type,
		.n_types = count(cases[i].type, N_ELEMENTS(cases[i].type)),
		.types_not = cases[i].type_not,
		.n_types_not = count(cases[i].type_not, N_ELEMENTS(cases[i].type_not)),
		.global = cases[i].global,
		.global_len = cases[i].global != NULL ? strlen(cases[i].global) : 0,
		.max_depth = cases[i].max_depth };
	cleanup(told_done) struct told t = { .text = NULL };

	for (size_t k = 0; k < N_ELEMENTS(cases[i].tree) && cases[i].tree[k] != NULL; k++)
		put(cases[i].tree[k]);
	expect(&o, &t, cases[i].want);
	assert_int_equal(t.troubles, 0);
	assert_int_equal(t.hidden, 0);
}

/* ---- reports ---- */

static void
test_enter_and_leave(void **state)
{
	cleanup(told_done) struct told t = { .marks = true };
	const struct walk_rules_options one = { .max_depth = 1 };

	put("b/c/d");
	put("a");
	put("e/");
	expect(&no_options, &t, "> a >b >b/c b/c/d <b/c <b >e <e < ");
	expect(&one, &t, "> a >b <b >e <e < ");
}

static void
test_stopped(void **state)
{
	static const char *const at[] = { ">", ">b", "b/c", "<b", "<" };

	put("b/c");
	put("d");
	for (size_t i = 0; i < N_ELEMENTS(at); i++) {
		cleanup(told_done) struct told t = { .marks = true, .stop_at = at[i] };
		const size_t n = strlen(at[i]);

		assert_int_equal(walk_at(&no_options, root, &t), 1);
		assert_true(t.len >= n + 1);
		assert_memory_equal(t.text + t.len - n - 1, at[i], n);
	}
}

static void
test_entry_can_be_opened(void **state)
{
	cleanup(told_done) struct told t = { .text = NULL };
	cleanup_close int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct walk_place place = { .fd = AT_FDCWD, .path = root };
	struct koda_error err;

	put("s/a");
	assert_int_equal(chdir(root), 0);
	assert_int_equal(walk_place_at(&no_options, &place, &t, &err), 0);
	assert_string_equal(t.text, "s/a ");
	assert_int_equal(fchdir(here), 0);
}

static void
test_unreadable_by_policy(void **state)
{
	cleanup(told_done) struct told t = { .refuse = "/s" };
	const struct walk_rules_options c = { .globs = (const char *const[]){ "*.c" },
		.n_globs = 1 };

	put("a.c");
	put("s/b.c");
	put("t/s");
	expect(&no_options, &t, "a.c ");
	assert_int_equal(t.hidden, 2);
	/* The rules leave t/s out, so the walk does not ask about it. */
	expect(&c, &t, "a.c ");
	assert_int_equal(t.hidden, 1);
	assert_int_equal(t.troubles, 0);
}

static void
test_unreadable_ignore_file(void **state)
{
	static const char *const files[] = { "/.gitignore", "/.ignore", "/.git/info/exclude" };
	cleanup(told_done) struct told t = { .text = NULL };

	put(".gitignore=a");
	put(".ignore=b");
	put(".git/info/exclude=c");
	put("a");
	put("b");
	put("c");
	expect(&no_options, &t, "");
	for (size_t i = 0; i < N_ELEMENTS(files); i++) {
		const char want[] = { (char)('a' + i), ' ', '\0' };

		t.refuse = files[i];
		expect(&no_options, &t, want);
		assert_int_equal(t.hidden, 0);
	}
}

/* ---- mounts, parents ---- */

/* Every system has something mounted at /dev, and at /proc. */
static void
test_mounts(void **state)
{
	struct walk_rules_options o = { .max_depth = 1 };
	cleanup(told_done) struct told t = { .marks = true };

	assert_int_equal(walk_at(&o, "/", &t), 0);
	assert_null(strstr(t.text, " >dev "));
	assert_non_null(strstr(t.text, " >usr "));
	o.flags = KODA_SEARCH_MOUNTS;
	assert_int_equal(walk_at(&o, "/", &t), 0);
	assert_non_null(strstr(t.text, " >dev "));
	/* Skipped wherever it is mounted: it is a window into processes. */
	assert_null(strstr(t.text, " >proc "));
}

static void
test_parents(void **state)
{
	static const char outer[] = "a\n/s/p/b\n/c\n", inner[] = "/p/d\n!a\n";
	char above[PATH_MAX], path[PATH_MAX];
	struct walk_parent parents[] = {
		{ .path = root, .ignore = outer, .ignore_len = sizeof(outer) - 1 },
		{ .path = above, .gitignore = inner, .gitignore_len = sizeof(inner) - 1 },
	};
	struct walk_place place = { .path = path, .parents = parents, .n_parents = 2 };
	struct walk_rules_options o = { .flags = 0 };
	cleanup(told_done) struct told t = { .text = NULL };
	struct koda_error err;
	cleanup_close int fd = -1;

	put("s/p/a");
	put("s/p/b");
	put("s/p/c");
	put("s/p/d");
	put("s/p/e");
	snprintf(above, sizeof(above), "%s", in_root("s"));
	snprintf(path, sizeof(path), "%s", in_root("s/p"));
	fd = open(path, O_PATH | O_CLOEXEC);
	place.fd = fd;
	assert_int_equal(walk_place_at(&o, &place, &t, &err), 0);
	assert_string_equal(t.text, "c d e ");
	place.in_repository = true;
	assert_int_equal(walk_place_at(&o, &place, &t, &err), 0);
	assert_string_equal(t.text, "c e ");
	/* git's own rules stop at a work tree, the others do not. */
	put("s/p/.git/");
	assert_int_equal(walk_place_at(&o, &place, &t, &err), 0);
	assert_string_equal(t.text, "c d e ");
	o.flags = KODA_SEARCH_NO_PARENTS;
	assert_int_equal(walk_place_at(&o, &place, &t, &err), 0);
	assert_string_equal(t.text, "a b c d e ");
}

/* ---- the rules of a search ---- */

/* clang-format off */
static const struct {
	const char *label, *glob, *type;
	enum koda_code code;
	const char *part;
} refused[] = {
	{ "unknown type", NULL, "nosuch", KODA_INVALID, "'nosuch'" },
	{ "glob without an end", "a[b", NULL, KODA_INVALID, "'a[b'" },
	{ "empty glob", "", NULL, KODA_INVALID, "''" },
	{ "glob of too much", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", NULL, KODA_TOO_LARGE, "braces" },
	{ "glob with an escape sequence", "\033[", NULL, KODA_INVALID, "\\x1b" },
};
/* clang-format on */

static void
check_refused(void **state)
{
	const size_t i = (uintptr_t)*state;
	const struct walk_rules_options o = { .globs = &refused[i].glob,
		.n_globs = refused[i].glob != NULL,
		.types = &refused[i].type,
		.n_types = refused[i].type != NULL };
	struct koda_error err = { 0 };

	assert_null(walk_rules_new(&o, &err));
	assert_int_equal(err.code, refused[i].code);
	if (strstr(err.message, refused[i].part) == NULL)
		fail_msg("%s", err.message);
}

int
main(void)
{
	const struct CMUnitTest single[] = { TEST(test_enter_and_leave), TEST(test_stopped),
		TEST(test_entry_can_be_opened), TEST(test_unreadable_by_policy),
		TEST(test_unreadable_ignore_file), TEST(test_mounts), TEST(test_parents) };
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(refused) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[n++] =
		    (struct CMUnitTest){ cases[i].label, check_case, set_up, tear_down, (void *)i };
	CASES(refused, check_refused);
	OTHERS(single);
	return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
