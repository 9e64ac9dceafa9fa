/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'koda-sandbox history', 'undo' and 'redo' for file operations: cli/cmd_history.c. Every command is a
 * session of its own, and so an entry of the history. (draft_cli_test.c: the same for drafts.)
 */
#include <time.h>

#include "tests/kit/cases.h"
#include "tests/kit/run_scene.h"

#define AUTO "--mode", "auto"

/* Runs it, and expects this status. */
#define EXPECT(r, status, ...)                                                                     \
	do {                                                                                       \
		go(r, __VA_ARGS__, NULL);                                                          \
		ended(r, status);                                                                  \
	} while (0)
/* The same without a look at what it says. */
#define DO(status, ...)                                                                            \
	do {                                                                                       \
		struct run do_ = { .in = END_NULL };                                               \
		EXPECT(&do_, status, __VA_ARGS__);                                                 \
		run_done(&do_);                                                                    \
	} while (0)

static bool
in_project(const char *name)
{
	char path[2 * PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", project, name);
	return lstat(path, &st) == 0;
}

static void
fs_write(const char *name, const char *content)
{
	struct run r = { .input = content, .input_len = strlen(content) };

	EXPECT(&r, 0, "fs", "write", name, AUTO);
	run_done(&r);
}

/* What is in `list` of the answer; the caller's. */
static json_t *
ask(const char *list, const char *command, const char *word)
{
	struct run r = { .in = END_NULL };
	json_t *o, *found;

	if (word != NULL)
		EXPECT(&r, 0, command, word, "--json");
	else
		EXPECT(&r, 0, command, "--json");
	o = parse(&r);
	found = json_incref(json_object_get(o, list));
	assert_true(json_is_array(found));
	json_decref(o);
	run_done(&r);
	return found;
}

static void
listed(void **state)
{
	json_t *all, *one, *changes;
	char id[64];

	put_text("a", "one\n");
	fs_write("a", "two\n");
	DO(0, "fs", "mv", "a", "b", AUTO);
	DO(0, "fs", "list", ".");
	all = ask("history", "history", NULL);
	assert_int_equal(json_array_size(all), 2);
	one = json_array_get(all, 1);
	assert_string_equal(text_at(one, "kind", NULL), "files");
	assert_string_equal(text_at(one, "root", NULL), project);
	assert_int_equal(number_at(one, "changes", NULL), 1);
	assert_int_equal(number_at(one, "undone", NULL), 0);
	assert_true(number_at(one, "bytes", NULL) > 0);
	assert_true(json_is_false(json_object_get(one, "in_use")));
	assert_true(json_is_false(json_object_get(one, "unfinished")));
	snprintf(id, sizeof(id), "%s", text_at(one, "id", NULL));
	changes = ask("changes", "history", id);
	assert_int_equal(json_array_size(changes), 1);
	one = json_array_get(changes, 0);
	assert_string_equal(text_at(one, "kind", NULL), "renamed");
	assert_non_null(strstr(text_at(one, "path", NULL), "/a"));
	assert_non_null(strstr(text_at(one, "to", NULL), "/b"));
	json_decref(changes);
	json_decref(all);
}

static void
last(void **state)
{
	struct run none = { .in = END_NULL };
	json_t *all;

	put_text("a", "one\n");
	fs_write("a", "two\n");
	fs_write("a", "three\n");
	DO(0, "undo", "--last", AUTO);
	file_is("a", "two\n");
	DO(0, "undo", "--last", AUTO);
	file_is("a", "one\n");
	EXPECT(&none, 1, "undo", "--last", AUTO);
	has(ERR(&none), "nothing to take back");
	DO(0, "redo", "--last", AUTO);
	file_is("a", "two\n");
	DO(0, "redo", "--last", AUTO);
	file_is("a", "three\n");
	all = ask("history", "history", NULL);
	assert_int_equal(json_array_size(all), 2);
	assert_int_equal(number_at(json_array_get(all, 0), "undone", NULL), 0);
	json_decref(all);
	run_done(&none);
}

static void
since(void **state)
{
	struct run none = { .in = END_NULL }, dry = { .in = END_NULL };
	char after[32];

	put_text("a", "one\n");
	put_text("gone", "gone\n");
	fs_write("a", "two\n");
	fs_write("d/e/f", "new\n");
	DO(0, "fs", "rm", "gone", AUTO);
	snprintf(after, sizeof(after), "@%lld", (long long)time(NULL) + 3600);
	EXPECT(&none, 1, "undo", "--since", after, AUTO);
	has(ERR(&none), "since then");
	EXPECT(&dry, 0, "undo", "--since", "1h", "--dry-run", AUTO);
	has(OUT(&dry), "would take back");
	file_is("a", "two\n");
	/* Only what is named. */
	DO(0, "undo", "--since", "1h", "d", AUTO);
	assert_false(in_project("d"));
	file_is("a", "two\n");
	assert_false(in_project("gone"));
	DO(0, "undo", "--since", "1h", AUTO);
	file_is("a", "one\n");
	file_is("gone", "gone\n");
	run_done(&none);
	run_done(&dry);
}

static void
conflict(void **state)
{
	struct run r = { .in = END_NULL };

	put_text("a", "one\n");
	fs_write("a", "two\n");
	put_text("a", "the user's\n");
	EXPECT(&r, 4, "undo", "--last", AUTO);
	has(ERR(&r), "not taken back: 'a'");
	has(ERR(&r), "--overwrite");
	file_is("a", "the user's\n");
	DO(0, "undo", "--last", "--overwrite", AUTO);
	file_is("a", "one\n");
	DO(0, "redo", "--last", AUTO);
	file_is("a", "the user's\n");
	run_done(&r);
}

static void
refused(void **state)
{
	struct run r = { .in = END_NULL };

	put_text("a", "one\n");
	fs_write("a", "two\n");
	EXPECT(&r, 3, "undo", "--last", "--mode", "plan");
	file_is("a", "two\n");
	run_done(&r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_project, remove_project)

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(listed),
		TEST(last),
		TEST(since),
		TEST(conflict),
		TEST(refused),
	};

	return cmocka_run_group_tests_name("keep_cli", tests, make_installation,
	    remove_installation);
}
