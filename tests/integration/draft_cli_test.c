/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'koda-sandbox run --draft', 'drafts', 'draft', 'history', 'undo' and 'redo' as people and programs
 * use them: cli/decide.c, cli/cmd_draft.c, cli/cmd_history.c. Every case ends with a look at the disk.
 */
#include "tests/kit/cases.h"
#include "tests/kit/run_scene.h"

#define AUTO   "--mode", "auto"
#define CHOOSE "[x] discard: "

/* Runs it, expects this status, and returns the result; the caller must run_done() it. */
#define EXPECT(r, status, ...)                                                                     \
	do {                                                                                       \
		go(r, __VA_ARGS__, NULL);                                                          \
		ended(r, status);                                                                  \
	} while (0)

static bool
in_project(const char *name)
{
	char path[2 * PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", project, name);
	return lstat(path, &st) == 0;
}

/* How many drafts of the project there are; id is the last one's. */
static size_t
drafts(char id[64])
{
	struct run r = { .in = END_NULL };
	json_t *o, *list;
	size_t n;

	EXPECT(&r, 0, "drafts", "--json");
	o = parse(&r);
	list = json_object_get(o, "drafts");
	n = json_array_size(list);
	if (n > 0 && id != NULL) {
		json_t *last = json_array_get(list, n - 1);

		snprintf(id, 64, "%s", text_at(last, "id", NULL));
		assert_string_equal(text_at(last, "root", NULL), project);
		assert_true(json_is_false(json_object_get(last, "in_use")));
	}
	json_decref(o);
	run_done(&r);
	return n;
}

/* Runs a command line in a new draft without a terminal, and returns the draft's id. */
static const char *
draft(const char *shell)
{
	static char id[64];
	struct run r = { .in = END_NULL };

	EXPECT(&r, 0, "run", AUTO, "--draft", "-c", shell);
	assert_int_equal(drafts(id), 1);
	has(ERR(&r), id);
	run_done(&r);
	return id;
}

/* ---- without a terminal ---- */

static void
kept(void **state)
{
	struct run r = { .in = END_NULL }, diff = { .in = END_NULL }, stat = { .in = END_NULL };
	char id[64];

	put_text("a", "one\ntwo\n");
	EXPECT(&r, 7, "run", AUTO, "--draft", "-c", "echo 2 >a; echo x >new; cat a; exit 7");
	is(OUT(&r), "2\n");
	assert_int_equal(drafts(id), 1);
	has(ERR(&r), id);
	has(ERR(&r), "1 changed, 1 created");
	has(ERR(&r), "draft diff");
	file_is("a", "one\ntwo\n");
	assert_false(in_project("new"));
	EXPECT(&diff, 0, "draft", "diff", id);
	is(OUT(&diff),
	    "changed a (8 -> 2 bytes)\n--- a/a\n+++ b/a\n@@ -1,2 +1,1 @@\n-one\n-two\n+2\n"
	    "created new (2 bytes)\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+x\n");
	EXPECT(&stat, 0, "draft", "diff", id, "--stat", "a");
	is(OUT(&stat), " a | 3 +--\n 1 file changed, 1 insertion(+), 2 deletions(-)\n");
	file_is("a", "one\ntwo\n");
	run_done(&r);
	run_done(&diff);
	run_done(&stat);
}

static void
unchanged(void **state)
{
	struct run r = { .in = END_NULL };

	put_text("a", "one\n");
	EXPECT(&r, 3, "run", AUTO, "--draft", "-c", "cat a; exit 3");
	is(OUT(&r), "one\n");
	is(ERR(&r), "");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
}

static void
applied_and_taken_back(void **state)
{
	struct run apply = { .in = END_NULL }, undo = { .in = END_NULL }, redo = { .in = END_NULL };
	struct run dry = { .in = END_NULL }, list = { .in = END_NULL }, none = { .in = END_NULL };
	const char *id;
	json_t *o;

	put_text("a", "one\n");
	put_text("gone", "gone\n");
	id = draft("echo 2 >a; rm gone; mkdir -p d/e; echo x >d/e/f");
	EXPECT(&dry, 0, "draft", "apply", id, "--dry-run");
	has(OUT(&dry), "would apply a (changed)\n");
	file_is("a", "one\n");
	EXPECT(&apply, 0, "draft", "apply", id, "-v");
	has(OUT(&apply), "applied a (changed)\n");
	has(OUT(&apply), "koda-sandbox undo ");
	file_is("a", "2\n");
	file_is("d/e/f", "x\n");
	assert_false(in_project("gone"));
	assert_int_equal(drafts(NULL), 0);
	EXPECT(&list, 0, "history", "--json");
	o = parse(&list);
	assert_int_equal(json_array_size(json_object_get(o, "history")), 1);
	json_decref(o);
	EXPECT(&undo, 0, "undo", "--last");
	file_is("a", "one\n");
	file_is("gone", "gone\n");
	assert_false(in_project("d"));
	EXPECT(&none, 1, "undo", "--last");
	has(ERR(&none), "nothing to take back");
	EXPECT(&redo, 0, "redo", "--last");
	file_is("a", "2\n");
	file_is("d/e/f", "x\n");
	assert_false(in_project("gone"));
	run_done(&apply);
	run_done(&undo);
	run_done(&redo);
	run_done(&dry);
	run_done(&list);
	run_done(&none);
}

static void
in_part(void **state)
{
	struct run apply = { .in = END_NULL }, glob = { .in = END_NULL }, drop = { .in = END_NULL };
	struct run typo = { .in = END_NULL };
	const char *id;

	put_text("a", "one\n");
	id = draft("echo 2 >a; echo x >b.c; echo y >c.c; echo z >d");
	EXPECT(&typo, 1, "draft", "diff", id, "nosuch");
	has(ERR(&typo), "no change of draft");
	EXPECT(&apply, 0, "draft", "apply", id, "a");
	file_is("a", "2\n");
	assert_false(in_project("b.c"));
	EXPECT(&glob, 0, "draft", "apply", id, "*.c");
	file_is("b.c", "x\n");
	file_is("c.c", "y\n");
	assert_false(in_project("d"));
	EXPECT(&drop, 0, "draft", "discard", id, "d");
	assert_int_equal(drafts(NULL), 0);
	assert_false(in_project("d"));
	run_done(&apply);
	run_done(&glob);
	run_done(&drop);
	run_done(&typo);
}

static void
refused(void **state)
{
	struct run diff = { .in = END_NULL }, apply = { .in = END_NULL };
	const char *id;

	process_shell("git init -q \"$1\"", project, NULL, NULL);
	id = draft("echo x >a; mkdir -p .git/hooks; echo '#!/bin/sh' >.git/hooks/pre-commit");
	EXPECT(&diff, 0, "draft", "diff", id);
	has(OUT(&diff), "REFUSED created .git/hooks/pre-commit");
	EXPECT(&apply, 3, "draft", "apply", id);
	has(ERR(&apply), "not applied: '.git/hooks/pre-commit'");
	file_is("a", "x\n");
	assert_false(in_project(".git/hooks/pre-commit"));
	assert_int_equal(drafts(NULL), 1);
	run_done(&diff);
	run_done(&apply);
}

/* Names beyond a draft's limits cannot be applied. */
static void
unlisted(void **state)
{
	struct run apply = { .in = END_NULL }, json = { .in = END_NULL };
	const char *id =
	    draft("echo x >x; i=0; while [ $i -lt 205 ]; do mkdir d && cd d || exit 1; "
		  "i=$((i + 1)); done");

	EXPECT(&json, 1, "draft", "apply", id, "x", "--json");
	has(OUT(&json), "\"outcome\":\"unlisted\"");
	has(OUT(&json), "\"unlisted\":1");
	file_is("x", "x\n");
	EXPECT(&apply, 1, "draft", "apply", id);
	has(ERR(&apply), "the draft has more names, or deeper ones, than a draft may have");
	assert_true(in_project("d/d/d"));
	assert_int_equal(drafts(NULL), 1);
	run_done(&apply);
	run_done(&json);
}

static void
conflict(void **state)
{
	struct run diff = { .in = END_NULL }, apply = { .in = END_NULL }, take = { .in = END_NULL };
	struct run undo = { .in = END_NULL }, over = { .in = END_NULL };
	const char *id;

	put_text("a", "one\n");
	id = draft("echo draft >a");
	put_text("a", "user\n");
	EXPECT(&diff, 0, "draft", "diff", id);
	has(OUT(&diff), "CONFLICT changed a");
	EXPECT(&apply, 4, "draft", "apply", id);
	has(ERR(&apply), "not applied: 'a'");
	has(ERR(&apply), "--take");
	file_is("a", "user\n");
	EXPECT(&take, 0, "draft", "apply", id, "--take", "draft");
	file_is("a", "draft\n");
	put_text("a", "later\n");
	EXPECT(&undo, 4, "undo", "--last");
	has(ERR(&undo), "not taken back: 'a'");
	file_is("a", "later\n");
	EXPECT(&over, 0, "undo", "--last", "--overwrite");
	file_is("a", "user\n");
	run_done(&diff);
	run_done(&apply);
	run_done(&take);
	run_done(&undo);
	run_done(&over);
}

/* Two drafts of one text; the first one is applied. Returns the other one's id. */
static const char *
two_drafts(const char *one, const char *two)
{
	static char id[64];
	struct run first = { .in = END_NULL }, second = { .in = END_NULL };
	struct run apply = { .in = END_NULL };
	char applied[64];

	put_text("a", "1\n2\n3\n4\n5\n6\n");
	EXPECT(&first, 0, "run", AUTO, "--draft", "-c", one);
	assert_int_equal(drafts(applied), 1);
	EXPECT(&second, 0, "run", AUTO, "--draft", "-c", two);
	assert_int_equal(drafts(id), 2);
	EXPECT(&apply, 0, "draft", "apply", applied);
	assert_int_equal(drafts(id), 1);
	run_done(&first);
	run_done(&second);
	run_done(&apply);
	return id;
}

static void
merged(void **state)
{
	struct run diff = { .in = END_NULL }, json = { .in = END_NULL }, dry = { .in = END_NULL };
	struct run take = { .in = END_NULL }, undo = { .in = END_NULL };
	const char *id = two_drafts("sed -i s/1/one/ a", "sed -i s/6/six/ a");

	EXPECT(&diff, 0, "draft", "diff", id);
	is(OUT(&diff),
	    "CONFLICT changed a (14 -> 14 bytes): it changed in the project since, and merges cleanly, to this\n"
	    "--- a/a\n+++ b/a\n@@ -3,4 +3,4 @@\n 3\n 4\n 5\n-6\n+six\n");
	EXPECT(&json, 0, "draft", "diff", id, "--json");
	has(OUT(&json), "\"conflict\":true,\"merge\":\"clean\"");
	EXPECT(&dry, 0, "draft", "apply", id, "--take", "merge", "--dry-run");
	has(OUT(&dry), "would apply a (changed, merged)\n");
	file_is("a", "one\n2\n3\n4\n5\n6\n");
	EXPECT(&take, 0, "draft", "apply", id, "--take", "merge", "-v");
	has(OUT(&take), "applied a (changed, merged)\n");
	file_is("a", "one\n2\n3\n4\n5\nsix\n");
	assert_int_equal(drafts(NULL), 0);
	EXPECT(&undo, 0, "undo", "--last");
	file_is("a", "one\n2\n3\n4\n5\n6\n");
	run_done(&diff);
	run_done(&json);
	run_done(&dry);
	run_done(&take);
	run_done(&undo);
}

static void
not_merged(void **state)
{
	struct run diff = { .in = END_NULL }, json = { .in = END_NULL }, take = { .in = END_NULL };
	const char *id = two_drafts("sed -i s/3/three/ a", "sed -i s/3/drei/ a");

	EXPECT(&diff, 0, "draft", "diff", id);
	has(OUT(&diff),
	    "it changed in the project since; project and draft changed the same lines in 1 place, first in line 3\n");
	has(OUT(&diff), "-three\n+drei\n");
	EXPECT(&json, 0, "draft", "diff", id, "--json");
	has(OUT(&json), "\"merge\":\"overlaps\",\"merge_reason\":");
	EXPECT(&take, 4, "draft", "apply", id, "--take", "merge");
	has(ERR(&take),
	    "not applied: 'a': it does not merge: project and draft changed the same lines");
	file_is("a", "1\n2\nthree\n4\n5\n6\n");
	assert_int_equal(drafts(NULL), 1);
	run_done(&diff);
	run_done(&json);
	run_done(&take);
}

static void
goes_on(void **state)
{
	struct run r = { .in = END_NULL }, other = { .in = END_NULL, .cwd = "/" };
	struct run gone = { .in = END_NULL };
	char start[2];
	const char *id;

	put_text("a", "one\n");
	id = draft("echo 2 >a");
	snprintf(start, sizeof(start), "%s", id);
	/* One draft: one letter names it, also from elsewhere. */
	EXPECT(&r, 0, "draft", "run", AUTO, start, "-c", "cat a; echo 3 >>a");
	is(OUT(&r), "2\n");
	EXPECT(&other, 5, "draft", "run", AUTO, id, "--", "sh", "-c", "cat a; exit 5");
	is(OUT(&other), "2\n3\n");
	file_is("a", "one\n");
	EXPECT(&gone, 0, "draft", "discard", start);
	assert_int_equal(drafts(NULL), 0);
	file_is("a", "one\n");
	run_done(&r);
	run_done(&other);
	run_done(&gone);
}

static void
as_json(void **state)
{
	struct run r = { .in = END_NULL }, none = { .in = END_NULL }, diff = { .in = END_NULL };
	char id[64];
	json_t *o;

	put_text("a", "one\n");
	EXPECT(&r, 0, "run", AUTO, "--draft", "--json", "-c", "echo 2 >a; echo hi");
	o = parse(&r);
	assert_int_equal(drafts(id), 1);
	assert_string_equal(text_at(o, "draft", "id"), id);
	assert_int_equal(number_at(o, "draft", "changed"), 1);
	json_decref(o);
	EXPECT(&none, 0, "run", AUTO, "--draft", "--json", "--", "true");
	o = parse(&none);
	assert_true(json_is_null(json_object_get(o, "draft")));
	json_decref(o);
	EXPECT(&diff, 0, "draft", "diff", id, "--json");
	has(OUT(&diff), "\"diff\":\"@@ -1,1 +1,1 @@\\n-one\\n+2\\n\"");
	has(OUT(&diff), "{\"type\":\"summary\",\"ok\":true");
	run_done(&r);
	run_done(&none);
	run_done(&diff);
}

/* ---- on a terminal ---- */

#define TERMINAL .in = END_TERMINAL, .out = END_TERMINAL, .err = END_TERMINAL, .controlling = true

static void
tty_apply(void **state)
{
	struct run r = { TERMINAL,
		.steps = { { .after = CHOOSE, .type = "d\n" },
		    { .after = CHOOSE, .times = 2, .type = "what\n" },
		    { .after = CHOOSE, .times = 3, .type = "a\n" } } };

	put_text("a", "one\n");
	EXPECT(&r, 7, "run", AUTO, "--draft", "-c", "echo 2 >a; exit 7");
	has(TTY(&r), "  changed  a (4 -> 2 bytes)");
	has(TTY(&r), "- one");
	has(TTY(&r), "+ 2");
	has(TTY(&r), "applied 1 change");
	has_not(TTY(&r), "stays in draft");
	file_is("a", "2\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
}

static void
tty_merge(void **state)
{
	const char *id = two_drafts("sed -i s/1/one/ a", "sed -i s/6/six/ a");
	struct run r = { TERMINAL,
		.steps = { { .after = CHOOSE, .type = "d\n" },
		    { .after = CHOOSE, .times = 2, .type = "m\n" } } };

	EXPECT(&r, 0, "draft", "run", AUTO, id, "true");
	has(TTY(&r),
	    "CONFLICT changed a (14 -> 14 bytes): it changed in the project since, and merges cleanly");
	has(TTY(&r), "[a]pply  [m]erge and apply  [d]iff");
	has(TTY(&r), "+ six");
	has(TTY(&r), "applied 1 change");
	file_is("a", "one\n2\n3\n4\n5\nsix\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
}

static void
tty_select(void **state)
{
	struct run r = { TERMINAL,
		.steps = { { .after = CHOOSE, .type = "s\n" },
		    { .after = "[c]ancel", .type = "n\n" },
		    { .after = "[c]ancel", .times = 2, .type = "d\n" },
		    { .after = "[c]ancel", .times = 3, .type = "y\n" },
		    { .after = "[c]ancel", .times = 4, .type = "e\n" } } };

	put_text("a", "one\n");
	EXPECT(&r, 0, "run", AUTO, "--draft", "-c",
	    "echo 2 >a; mkdir d; echo x >d/x; echo y >d/y; echo z >z");
	file_is("a", "one\n");
	file_is("d/x", "x\n");
	file_is("d/y", "y\n");
	assert_false(in_project("z"));
	assert_int_equal(drafts(NULL), 1);
	run_done(&r);
}

/* A name that a command chose selects itself alone, even if it would do as a glob. */
static void
tty_select_exactly(void **state)
{
	struct run r = { TERMINAL,
		.steps = { { .after = CHOOSE, .type = "s\n" },
		    { .after = "[c]ancel", .type = "y\n" },
		    { .after = "[c]ancel", .times = 2, .type = "n\n" },
		    { .after = "[c]ancel", .times = 3, .type = "y\n" },
		    { .after = "[c]ancel", .times = 4, .type = "n\n" } } };

	EXPECT(&r, 0, "run", AUTO, "--draft", "-c",
	    "echo x >'a*'; echo y >ab; mkdir 'd[e]' de; echo z >'d[e]/f'; echo u >de/g");
	file_is("a*", "x\n");
	assert_false(in_project("ab"));
	assert_false(in_project("de"));
	file_is("d[e]/f", "z\n");
	run_done(&r);
}

static void
tty_discard(void **state)
{
	struct run r = { TERMINAL, .steps = { { .after = CHOOSE, .type = "x\n" } } };

	put_text("a", "one\n");
	EXPECT(&r, 0, "run", AUTO, "--draft", "-c", "echo 2 >a");
	has(TTY(&r), "was discarded");
	file_is("a", "one\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
}

/* An interrupt at the prompt keeps the draft, and the status is still the command's. */
static void
tty_interrupt(void **state)
{
	struct run r = { TERMINAL, .steps = { { .after = CHOOSE, .type = "\003" } } };
	struct run s = { TERMINAL,
		.steps = { { .after = CHOOSE, .type = "s\n" },
		    { .after = "[c]ancel", .type = "\003" },
		    { .after = CHOOSE, .times = 2, .type = "k\n" } } };

	put_text("a", "one\n");
	EXPECT(&r, 7, "run", AUTO, "--draft", "-c", "echo 2 >a; exit 7");
	has(TTY(&r), "holds the changes back");
	file_is("a", "one\n");
	assert_int_equal(drafts(NULL), 1);
	EXPECT(&s, 0, "run", AUTO, "--draft", "-c", "echo 2 >a");
	file_is("a", "one\n");
	assert_int_equal(drafts(NULL), 2);
	run_done(&r);
	run_done(&s);
}

/* What was typed before the prompt does not answer it. */
static void
tty_typed_ahead(void **state)
{
	struct run r = { TERMINAL,
		.steps = { { .after = "go", .type = "a\n" }, { .after = "on", .type = "k\n" },
		    { .after = CHOOSE, .type = "k\n" } } };

	put_text("a", "one\n");
	EXPECT(&r, 0, "run", AUTO, "--draft", "-c",
	    "echo 2 >a; echo go; sleep 0.2; echo on; sleep 0.2");
	file_is("a", "one\n");
	assert_int_equal(drafts(NULL), 1);
	run_done(&r);
}

/* A command cannot make its names look like our text, or repaint the prompt. */
static void
tty_hostile(void **state)
{
	struct run r = { TERMINAL,
		.steps = { { .after = CHOOSE, .type = "d\n" },
		    { .after = CHOOSE, .times = 2, .type = "x\n" } } };

	EXPECT(&r, 0, "run", AUTO, "--draft", "-c",
	    "printf '\\033[2Jx\\n' >\"$(printf 'n\\033[2J\\n  changed  a')\"");
	has_not(TTY(&r), "\033[2J");
	has(TTY(&r), "'n\\x1b[2J\\x0a  changed  a'");
	has(TTY(&r), "+ \\x1b[2Jx");
	run_done(&r);
}

/* If the output goes to another program, the keys are for that one. */
static void
tty_piped(void **state)
{
	struct run r = { .in = END_TERMINAL, .err = END_TERMINAL, .controlling = true };

	put_text("a", "one\n");
	EXPECT(&r, 0, "run", AUTO, "--draft", "-c", "echo 2 >a; echo hi");
	is(OUT(&r), "hi\n");
	has(TTY(&r), "holds the changes back");
	has_not(TTY(&r), CHOOSE);
	assert_int_equal(drafts(NULL), 1);
	run_done(&r);
}

static void
tty_shell(void **state)
{
	struct run r = { TERMINAL,
		.steps = { { .after = NULL, .type = "echo 2 >a; exit\n" },
		    { .after = CHOOSE, .type = "a\n" } } };

	setenv("SHELL", "/bin/sh", 1);
	put_text("a", "one\n");
	EXPECT(&r, 0, "shell", AUTO, "--draft");
	file_is("a", "2\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
}

/* ---- safe mode, which is the default ---- */

#define FETCH "curl -s -o /dev/null -w '%{http_code}\\n' http://github.com/; true"

static void
safe_kept(void **state)
{
	struct run r = { .in = END_NULL }, none = { .in = END_NULL };

	put_text("a", "one\n");
	EXPECT(&r, 7, "run", "-c", "echo 2 >a; cat a; exit 7");
	is(OUT(&r), "2\n");
	has(ERR(&r), "1 changed");
	file_is("a", "one\n");
	assert_int_equal(drafts(NULL), 1);
	EXPECT(&none, 3, "run", "-c", "cat a; exit 3");
	is(OUT(&none), "one\n");
	is(ERR(&none), "");
	assert_int_equal(drafts(NULL), 1);
	run_done(&r);
	run_done(&none);
}

static void
safe_terminal(void **state)
{
	struct run r = { TERMINAL, .steps = { { .after = CHOOSE, .type = "a\n" } } };
	struct run x = { TERMINAL, .steps = { { .after = CHOOSE, .type = "x\n" } } };
	struct run none = { TERMINAL };

	put_text("a", "one\n");
	EXPECT(&r, 7, "run", "-c", "echo 2 >a; exit 7");
	has(TTY(&r), "applied 1 change");
	has_not(TTY(&r), "Allow this?");
	file_is("a", "2\n");
	EXPECT(&x, 0, "run", "-c", "echo 3 >a");
	file_is("a", "2\n");
	EXPECT(&none, 5, "run", "-c", "cat a; exit 5");
	is(TTY(&none), "2\r\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
	run_done(&x);
	run_done(&none);
}

/* The old way: the command changes the project, and was typed or is asked for before it runs. */
static void
safe_without(void **state)
{
	struct run typed = { TERMINAL }, nobody = { .in = END_NULL };
	struct run asked = { .in = END_NULL,
		.controlling = true,
		.steps = { { .after = "[y/N] ", .type = "y\n" } } };

	put_text("a", "one\n");
	EXPECT(&nobody, 3, "run", "--no-draft", "-c", "echo 2 >a");
	file_is("a", "one\n");
	EXPECT(&asked, 0, "run", "--no-draft", "-c", "echo 2 >a");
	file_is("a", "2\n");
	EXPECT(&typed, 0, "run", "--no-draft", "-c", "echo 3 >a");
	has_not(TTY(&typed), CHOOSE);
	file_is("a", "3\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&typed);
	run_done(&nobody);
	run_done(&asked);
}

/* Where there can be no draft it is the old way, and the reason is printed once. */
static void
safe_impossible(void **state)
{
	struct run typed = { TERMINAL }, nobody = { .in = END_NULL }, wanted = { TERMINAL };
	char dir[PATH_MAX + 16];
	cleanup_free char *before =
	    getenv("XDG_STATE_HOME") == NULL ? NULL : strdup(getenv("XDG_STATE_HOME"));

	put_text("a", "one\n");
	snprintf(dir, sizeof(dir), "%s/state", project);
	assert_int_equal(setenv("XDG_STATE_HOME", dir, 1), 0);
	EXPECT(&nobody, 3, "run", "-c", "echo 2 >a");
	has(ERR(&nobody), "the drafts would be in it");
	file_is("a", "one\n");
	EXPECT(&wanted, 88, "run", "--draft", "-c", "echo 2 >a");
	file_is("a", "one\n");
	EXPECT(&typed, 0, "run", "-c", "echo 2 >a");
	assert_int_equal(times_said(&typed, "the drafts would be in it"), 1);
	file_is("a", "2\n");
	if (before != NULL)
		setenv("XDG_STATE_HOME", before, 1);
	else
		unsetenv("XDG_STATE_HOME");
	run_done(&typed);
	run_done(&nobody);
	run_done(&wanted);
}

/* A host of the built-in list is asked for, and refused where there is no terminal. */
static void
safe_hosts(void **state)
{
	struct run r = { TERMINAL, .steps = { { .after = "[N]o ", .type = "n\n" } } };
	struct run nobody = { .in = END_NULL };

	EXPECT(&r, 0, "run", "-c", FETCH);
	has(TTY(&r), "wants to reach 'github.com:80'");
	has(TTY(&r), "403\r\n");
	has(TTY(&r), "not_approved");
	assert_int_equal(times_said(&r, "[N]o "), 1);
	EXPECT(&nobody, 0, "run", "-c", FETCH);
	is(OUT(&nobody), "403\n");
	has(ERR(&nobody), "cannot ask the user");
	run_done(&r);
	run_done(&nobody);
}

/* The file that standard input comes from is the project's, not the draft's. */
static void
safe_input(void **state)
{
	struct run r = { .in = END_FILE };
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/in", project);
	put_text("in", "one\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_not_equal(st.st_mode & 0777, 0777);
	EXPECT(&r, 0, "run", "-c", "cat; chmod 777 /proc/self/fd/0; echo 2 >/proc/self/fd/0; true");
	is(OUT(&r), "one\n");
	file_is("in", "one\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_not_equal(st.st_mode & 0777, 0777);
	run_done(&r);
}

/* ---- judged ---- */

/* A hook, a repository and a link in .git never land; what a person would allow does at once. */
static void
judged(void **state)
{
	struct run r = { .in = END_NULL }, undo = { .in = END_NULL }, none = { .in = END_NULL };
	struct run whole = { .in = END_NULL };

	process_shell("git init -q \"$1\"", project, NULL, NULL);
	put_text("a", "one\n");
	EXPECT(&r, 5, "run", AUTO, "--judged", "-c",
	    "echo 2 >a; mkdir -p d .git/hooks; echo x >d/f; echo x >.git/hooks/post-commit; exit 5");
	file_is("a", "2\n");
	file_is("d/f", "x\n");
	assert_false(in_project(".git/hooks/post-commit"));
	has(ERR(&r), "not applied: '.git/hooks");
	has(ERR(&r), "to take back: koda-sandbox undo ");
	has(ERR(&r), "what was not applied stays in draft");
	/* What was refused can be looked at. */
	assert_int_equal(drafts(NULL), 1);
	EXPECT(&undo, 0, "undo", "--last");
	file_is("a", "one\n");
	assert_false(in_project("d"));
	EXPECT(&none, 0, "run", AUTO, "--judged", "-c", "cat a");
	is(OUT(&none), "one\n");
	is(ERR(&none), "");
	EXPECT(&whole, 0, "run", AUTO, "--judged", "-c", "echo 3 >a");
	file_is("a", "3\n");
	has_not(ERR(&whole), "stays in draft");
	assert_int_equal(drafts(NULL), 1);
	run_done(&whole);
	run_done(&r);
	run_done(&undo);
	run_done(&none);
}

static void
judged_json(void **state)
{
	struct run r = { .in = END_NULL };
	json_t *o, *draft, *left;

	put_text("a", "one\n");
	EXPECT(&r, 0, "run", AUTO, "--judged", "--json", "-c",
	    "echo 2 >a; mkdir -p .git/hooks; echo x >.git/hooks/post-commit");
	o = parse(&r);
	draft = json_object_get(o, "draft");
	left = json_object_get(draft, "not_applied");
	assert_int_equal(number_at(o, "draft", "changed"), 1);
	assert_true(number_at(o, "draft", "applied") >= 1);
	assert_true(number_at(o, "draft", "refused") >= 1);
	assert_int_equal(json_array_size(left), number_at(o, "draft", "refused"));
	assert_non_null(json_string_value(json_object_get(draft, "undo")));
	assert_true(json_is_true(json_object_get(draft, "kept")));
	file_is("a", "2\n");
	assert_false(in_project(".git/hooks/post-commit"));
	json_decref(o);
	run_done(&r);
}

/* And so is the file that its output goes to. */
static void
safe_output(void **state)
{
	struct run r = { .in = END_NULL, .out = END_FILE };
	struct run both = { .in = END_NULL, .out = END_FILE, .err = END_OUTPUT };
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/out", project);
	EXPECT(&r, 6, "run", "-c",
	    "echo one; chmod 777 /proc/self/fd/1; python3 -c 'import os; os.pwrite(1, b\"harm\", 0)'"
	    " 2>/dev/null; python3 -c 'import os; os.ftruncate(1, 0)' 2>/dev/null;"
	    " echo two >&2; echo three; exit 6");
	file_is("out", "one\nthree\n");
	is(ERR(&r), "two\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_not_equal(st.st_mode & 0777, 0777);
	EXPECT(&both, 0, "run", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done");
	file_is("out", "o1\ne1\no2\ne2\no3\ne3\n");
	assert_int_equal(drafts(NULL), 0);
	run_done(&r);
	run_done(&both);
}

/* A shell is decided on at its end, too. */
static void
safe_shell(void **state)
{
	struct run apply = { TERMINAL,
		.steps = { { .after = NULL, .type = "echo 2 >a; exit 4\n" },
		    { .after = CHOOSE, .type = "a\n" } } };
	struct run discard = { TERMINAL,
		.steps = { { .after = NULL, .type = "echo 3 >a; exit\n" },
		    { .after = CHOOSE, .type = "x\n" } } };
	struct run typed = { TERMINAL,
		.steps = { { .after = NULL, .type = "echo 4 >a; exit\n" } } };
	struct run nobody = { .in = END_NULL };

	setenv("SHELL", "/bin/sh", 1);
	put_text("a", "one\n");
	EXPECT(&apply, 4, "shell");
	file_is("a", "2\n");
	EXPECT(&discard, 0, "shell");
	file_is("a", "2\n");
	EXPECT(&typed, 0, "shell", "--no-draft");
	has_not(TTY(&typed), CHOOSE);
	file_is("a", "4\n");
	EXPECT(&nobody, 0, "shell");
	assert_int_equal(drafts(NULL), 0);
	run_done(&apply);
	run_done(&discard);
	run_done(&typed);
	run_done(&nobody);
}

/* ---- wrong usage ---- */

static const struct usage {
	const char *label;
	int status;
	const char *says;
	const char *args[8];
} usages[] = {
	/* clang-format off */
	{ "plan has no draft", 2, "use --mode safe or auto", { "run", "--mode", "plan", "--draft", "true" } },
	{ "no draft without a sandbox", 2, "--draft cannot be combined with --no-sandbox", { "run", "--draft", "--no-sandbox", "true" } },
	{ "a draft and none", 2, "--draft cannot be combined with --no-draft", { "run", "--draft", "--no-draft", "true" } },
	{ "judged is not for safe", 2, "it is for --mode auto", { "run", "--judged", "true" } },
	{ "judged or decided on", 2, "--judged cannot be combined with --draft", { "run", "--mode", "auto", "--judged", "--draft", "true" } },
	{ "judged without a sandbox", 2, "--judged cannot be combined with --no-sandbox", { "run", "--mode", "auto", "--judged", "--no-sandbox", "true" } },
	{ "a judged server asks nobody", 2, "it is for --mode auto", { "mcp", "--mode", "safe", "--judged" } },
	{ "draft run without anything", 2, "the ID of a draft", { "draft", "run" } },
	{ "draft run without a command", 2, "draft run needs", { "draft", "run", "x" } },
	{ "draft run of no draft", 125, "there is no draft 'zzzz'", { "draft", "run", "zzzz", "true" } },
	{ "draft diff of no draft", 1, "'koda-sandbox drafts --all' lists them", { "draft", "diff", "zzzz" } },
	{ "an empty id", 1, "there is no draft ''", { "draft", "diff", "" } },
	{ "--color", 2, "auto, always or never", { "draft", "diff", "x", "--color", "blue" } },
	{ "--take", 2, "draft, project or merge", { "draft", "apply", "x", "--take", "mine" } },
	{ "apply in plan", 3, "use another mode", { "draft", "apply", "x", "--mode", "plan" } },
	{ "discard in plan", 3, "use another mode", { "draft", "discard", "x", "--mode", "plan" } },
	{ "undo of nothing", 2, "undo needs an ID, --last or --since", { "undo" } },
	{ "undo since when", 2, "--since needs a time", { "undo", "--since", "soon" } },
	{ "undo in plan", 3, "use another mode", { "undo", "--last", "--mode", "plan" } },
	{ "undo of an unknown id", 1, "'koda-sandbox history --all'", { "undo", "zzzz" } },
	{ "redo since", 2, "unknown option '--since'", { "redo", "--since", "1h" } },
	{ "history of one and all", 2, "either an ID or --all", { "history", "x", "--all" } },
	{ "an unknown draft command", 2, "did you mean 'diff'", { "draft", "dif" } },
	/* clang-format on */
};

static void
usage(void **state)
{
	const struct usage *u = *state;
	char program[PATH_MAX + 32], *argv[ARGS_MAX] = { program };
	struct run r = { .in = END_NULL };

	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	for (size_t i = 0; i < N_ELEMENTS(u->args) && u->args[i] != NULL; i++)
		argv[i + 1] = (char *)u->args[i];
	run_v(&r, argv);
	ended(&r, u->status);
	is(OUT(&r), "");
	has(ERR(&r), u->says);
	run_done(&r);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(kept),
		TEST(unchanged),
		TEST(applied_and_taken_back),
		TEST(in_part),
		TEST(refused),
		TEST(unlisted),
		TEST(conflict),
		TEST(merged),
		TEST(not_merged),
		TEST(goes_on),
		TEST(as_json),
		TEST(tty_apply),
		TEST(tty_merge),
		TEST(tty_select),
		TEST(tty_select_exactly),
		TEST(tty_discard),
		TEST(tty_interrupt),
		TEST(tty_typed_ahead),
		TEST(tty_hostile),
		TEST(tty_piped),
		TEST(tty_shell),
		TEST(safe_kept),
		TEST(safe_terminal),
		TEST(safe_without),
		TEST(safe_impossible),
		TEST(safe_hosts),
		TEST(safe_input),
		TEST(judged),
		TEST(judged_json),
		TEST(safe_output),
		TEST(safe_shell),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(usages)];
	size_t n = 0;

	if (!has_inotify())
		return skip_all(NO_INOTIFY);
	for (size_t i = 0; i < N_ELEMENTS(usages); i++)
		tests[n++] = (struct CMUnitTest){ usages[i].label, usage, make_project,
			remove_project, (void *)&usages[i] };
	OTHERS(single);
	return cmocka_run_group_tests_name("draft_cli", tests, make_installation,
	    remove_installation);
}
