/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage2/lower_names.c: which changes of a directory tree it notices, and when it cannot tell.
 */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "stage2/lower_names.h"

#define ASKED    4    /* ASKED_MIN */
#define DIRS_MAX 6144 /* of lower_names.c */

static char base[PATH_MAX - 64];
static struct lower_names *names;

static const char *
at(const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", base, name);
	return p;
}

static void
make(const char *name)
{
	assert_int_equal(mkdir(at(name), 0755), 0);
}

static void
put(const char *name)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

static void
look_at_all(void)
{
	while (lower_names_waits(names))
		lower_names_look(names);
}

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	int root;

	snprintf(base, sizeof(base), "%s/lower.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	if (mkdtemp(base) == NULL)
		return -1;
	make("a");
	make("a/b");
	put("file");
	put("a/file");
	put("a/b/file");
	root = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	names = lower_names_new();
	if (root < 0 || names == NULL)
		return -1;
	lower_names_add(names, root);
	return 0;
}

/* All directories are watched, and what changed before was reported. */
static int
set_up_watched(void **state)
{
	if (set_up(state) < 0)
		return -1;
	for (int i = 0; i < ASKED; i++)
		assert_true(lower_names_changed(names));
	assert_true(lower_names_waits(names));
	look_at_all();
	assert_true(lower_names_changed(names));
	assert_false(lower_names_changed(names));
	return 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int
tear_down(void **state)
{
	lower_names_free(names);
	return nftw(base, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

/* A short session looks at nothing, and takes everything for changed. */
static void
asked_seldom(void **state)
{
	for (int i = 1; i < ASKED; i++) {
		assert_true(lower_names_changed(names));
		assert_false(lower_names_waits(names));
		lower_names_look(names);
	}
	assert_true(lower_names_changed(names));
	assert_true(lower_names_waits(names));
}

/* Until all directories are watched, anything may have changed. */
static void
not_all_yet(void **state)
{
	for (int i = 0; i < 40; i++) {
		char name[32];

		snprintf(name, sizeof(name), "a/b/%d", i);
		make(name);
	}
	for (int i = 0; i < ASKED; i++)
		assert_true(lower_names_changed(names));
	lower_names_look(names);
	assert_true(lower_names_waits(names));
	assert_true(lower_names_changed(names));
	assert_true(lower_names_changed(names));
	look_at_all();
	assert_true(lower_names_changed(names));
	assert_false(lower_names_changed(names));
}

static void
made(void)
{
	put("a/b/new");
}

static void
removed(void)
{
	assert_int_equal(unlink(at("a/file")), 0);
}

static void
replaced(void)
{
	assert_int_equal(rename(at("file"), at("a/file")), 0);
}

static void
mode(void)
{
	assert_int_equal(chmod(at("a/b/file"), 0755), 0);
}

static void
came_and_went(void)
{
	put("a/lock");
	assert_int_equal(unlink(at("a/lock")), 0);
}

static void
came_and_stayed(void)
{
	put("a/lock");
	put("a/lock2");
	assert_int_equal(unlink(at("a/lock")), 0);
}

static void
came_and_was_moved(void)
{
	put("a/lock");
	assert_int_equal(rename(at("a/lock"), at("a/file")), 0);
}

static void
went_and_came(void)
{
	removed();
	put("a/file");
}

static void
crowd(void)
{
	char name[32];

	for (int i = 0; i < 9; i++) { /* FRESH_MAX, and one */
		snprintf(name, sizeof(name), "a/lock%d", i);
		put(name);
	}
	for (int i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "a/lock%d", i);
		assert_int_equal(unlink(at(name)), 0);
	}
}

static const struct {
	const char *label;
	void (*change)(void);
	bool idle, want;
} rows[] = {
	{ "made", made, true, true },
	{ "removed", removed, true, true },
	{ "replaced", replaced, true, true },
	{ "mode", mode, true, true },
	{ "came and went", came_and_went, true, false },
	{ "came and went while a command ran", came_and_went, false, true },
	{ "came and stayed", came_and_stayed, true, true },
	{ "came and was moved", came_and_was_moved, true, true },
	{ "went and came", went_and_came, true, true },
	{ "came and went, too many", crowd, true, true },
};

static void
check_row(void **state)
{
	const size_t i = (size_t)(uintptr_t)*state;

	assert_int_equal(set_up_watched(NULL), 0);
	if (rows[i].idle)
		lower_names_idle(names);
	rows[i].change();
	assert_int_equal(lower_names_changed(names), rows[i].want);
	assert_false(lower_names_waits(names));
	assert_false(lower_names_changed(names));
	assert_int_equal(tear_down(NULL), 0);
}

/* A command that ends leaves no doubt about what changed before. */
static void
while_it_ran(void **state)
{
	came_and_went();
	lower_names_idle(names);
	assert_true(lower_names_changed(names));
	assert_false(lower_names_changed(names));
}

/* A new directory is watched as well, however it came. */
static void
new_directories(void **state)
{
	make("new");
	make("new/deep");
	assert_true(lower_names_changed(names));
	look_at_all();
	assert_true(lower_names_changed(names));
	assert_false(lower_names_changed(names));
	put("new/deep/file");
	assert_true(lower_names_changed(names));
	assert_int_equal(rename(at("new"), at("a/moved")), 0);
	assert_true(lower_names_changed(names));
	look_at_all();
	assert_true(lower_names_changed(names));
	assert_int_equal(unlink(at("a/moved/deep/file")), 0);
	assert_true(lower_names_changed(names));
	assert_false(lower_names_changed(names));
}

/* With more directories than may be watched, everything may always have changed. */
static void
too_many(void **state)
{
	char name[64];

	for (int i = 0; i < DIRS_MAX; i++) {
		snprintf(name, sizeof(name), "a/b/%d", i);
		make(name);
	}
	for (int i = 0; i < ASKED; i++)
		lower_names_changed(names);
	look_at_all();
	for (int i = 0; i < 3; i++)
		assert_true(lower_names_changed(names));
	assert_false(lower_names_waits(names));
}

/* A directory that cannot be listed but searched; one that cannot even be searched hides nothing. */
static void
unreadable(void **state)
{
	if (geteuid() == 0)
		return;
	assert_int_equal(chmod(at("a/b"), 0), 0);
	assert_true(lower_names_changed(names));
	look_at_all();
	assert_true(lower_names_changed(names));
	assert_false(lower_names_changed(names));
	assert_int_equal(chmod(at("a/b"), 0100), 0);
	assert_true(lower_names_changed(names));
	look_at_all();
	assert_true(lower_names_changed(names));
	assert_true(lower_names_changed(names));
	assert_int_equal(chmod(at("a/b"), 0755), 0);
}

/* Nothing can be watched. */
static void
none(void **state)
{
	assert_true(lower_names_changed(NULL));
	assert_false(lower_names_waits(NULL));
	lower_names_look(NULL);
	lower_names_idle(NULL);
	lower_names_add(NULL, open("/", O_PATH | O_CLOEXEC));
	lower_names_free(NULL);
}

int
main(void)
{
	struct CMUnitTest tests[7 + N_ELEMENTS(rows)] = {
		cmocka_unit_test_setup_teardown(asked_seldom, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_all_yet, set_up, tear_down),
		cmocka_unit_test_setup_teardown(while_it_ran, set_up_watched, tear_down),
		cmocka_unit_test_setup_teardown(new_directories, set_up_watched, tear_down),
		cmocka_unit_test_setup_teardown(too_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unreadable, set_up_watched, tear_down),
		cmocka_unit_test(none),
	};

	for (size_t i = 0; i < N_ELEMENTS(rows); i++)
		tests[7 + i] = (struct CMUnitTest){ rows[i].label, check_row, NULL, NULL,
			(void *)(uintptr_t)i };
	return cmocka_run_group_tests_name("lower_names", tests, NULL, NULL);
}
