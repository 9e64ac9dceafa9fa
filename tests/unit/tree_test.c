/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/tree.c: any change below a directory is seen; anything else is not. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mcp/tree.h"
#include "shared/base/cleanup.h"

static char root[PATH_MAX];

static void
shell(const char *script)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (chdir(root) < 0)
			_exit(126);
		execl("/bin/sh", "sh", "-euc", script, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int
make_tree(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(root, sizeof(root), "%s/koda-tree.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(root) == NULL)
		return -1;
	shell(
	    "mkdir -p d/e .hidden && echo one >a && echo deep >d/e/f && echo h >.hidden/h && ln -s a l && "
	    "touch -d @1000000000 d/e/f");
	return 0;
}

static int
remove_tree(void **state)
{
	shell("rm -rf -- \"$PWD\"");
	return 0;
}

static const struct {
	const char *label, *script;
	bool seen;
} cases[] = {
	/* clang-format off */
	{ "nothing", ":", false },
	{ "reading", "cat a d/e/f >/dev/null && ls -lR . >/dev/null", false },
	{ "content of the same size", "echo two >a", true },
	{ "content, deep below", "echo DEEP >d/e/f", true },
	{ "content, with the time set back", "echo DEEP >d/e/f && touch -d @1000000000 d/e/f", true },
	{ "content, by another file of the same name", "echo deep >n && touch -r d/e/f n && mv n d/e/f", true },
	{ "hidden content", "echo H >.hidden/h", true },
	{ "a new file", ": >d/new", true },
	{ "a file that goes", "rm a", true },
	{ "one that comes and goes", ": >d/new && rm d/new", true },
	{ "a new name", "mv a b", true },
	{ "permissions", "chmod +x a", true },
	{ "a link that leads elsewhere", "ln -sfn d l", true },
	{ "an empty directory", "mkdir d/e/g", true },
	/* clang-format on */
};

/* Waits until the clock that older kernels stamp files with has advanced: two changes within one
 * tick have the same time. */
static void
next_tick(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &start);
	do {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec == start.tv_sec && now.tv_nsec == start.tv_nsec);
}

static void
check_case(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct tree_state before, after;

	assert_true(tree_look(root, &before));
	next_tick();
	shell(cases[i].script);
	assert_true(tree_look(root, &after));
	assert_int_equal(memcmp(&before, &after, sizeof(before)) != 0, cases[i].seen);
}

static void
no_directory(void **state)
{
	struct tree_state tree;
	char path[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/a", root);
	assert_false(tree_look(path, &tree));
	snprintf(path, sizeof(path), "%s/none", root);
	assert_false(tree_look(path, &tree));
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases) + 1];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, make_tree, remove_tree,
			(void *)i };
	tests[N_ELEMENTS(cases)] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(no_directory,
	    make_tree, remove_tree);
	return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
