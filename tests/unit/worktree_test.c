/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/sandbox/worktree.c: which git directory a project's .git file may name, and which it only
 * claims.
 */
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/sandbox/worktree.h"
#include "shared/base/cleanup.h"

static char base[PATH_MAX - 256];

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
put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "we");

	assert_non_null(f);
	/* @ stands for the base. */
	for (; *text != '\0'; text++)
		if (*text == '@')
			fputs(base, f);
		else
			fputc(*text, f);
	assert_int_equal(fclose(f), 0);
}

static void
put_git_dir(const char *name)
{
	char path[64];

	make(name);
	snprintf(path, sizeof(path), "%s/HEAD", name);
	put(path, "ref: refs/heads/main\n");
	snprintf(path, sizeof(path), "%s/objects", name);
	make(path);
	snprintf(path, sizeof(path), "%s/refs", name);
	make(path);
}

/* A repository, a worktree of it, a superproject with a submodule. */
static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX - 300], *real;

	snprintf(dir, sizeof(dir), "%s/worktree.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	if (mkdtemp(dir) == NULL || (real = realpath(dir, NULL)) == NULL)
		return -1;
	snprintf(base, sizeof(base), "%s", real);
	free(real);
	make("main");
	put_git_dir("main/.git");
	make("main/.git/worktrees");
	make("main/.git/worktrees/wt");
	put("main/.git/worktrees/wt/gitdir", "@/wt/.git\n");
	put("main/.git/worktrees/wt/commondir", "../..\n");
	make("wt");
	put("wt/.git", "gitdir: @/main/.git/worktrees/wt\n");
	make("super");
	put_git_dir("super/.git");
	make("super/.git/modules");
	put_git_dir("super/.git/modules/sub");
	put("super/.git/modules/sub/config", "[core]\n\tbare = false\n\tworktree = ../../../sub\n");
	make("super/sub");
	put("super/sub/.git", "gitdir: ../.git/modules/sub\n");
	make("evil");
	return 0;
}

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static int
tear_down(void **state)
{
	return nftw(base, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

static void
expect(const char *root, const char *want)
{
	cleanup_free char *got = worktree_git_dir(at(root));

	if (want == NULL)
		assert_null(got);
	else if (got == NULL)
		fail_msg("%s is not recognised", root);
	else
		assert_string_equal(got, at(want));
}

static void
genuine(void **state)
{
	expect("wt", "main/.git");
	expect("super/sub", "super/.git/modules/sub");
	expect("main", NULL);
	expect("evil", NULL);
}

static const char *const claims[] = {
	"gitdir: @/main/.git/worktrees/wt\n", /* which points back to wt */
	"gitdir: @/main/.git\n",
	"gitdir: @/super/.git/modules/sub\n",
	"gitdir: @/home\n",
	"gitdir: /\n",
	"gitdir: \n",
	"nothing\n",
	"",
};

static void
claimed(void **state)
{
	put("evil/.git", *state);
	expect("evil", NULL);
}

static void
points_elsewhere(void **state)
{
	put("main/.git/worktrees/wt/gitdir", "@/other/.git\n");
	expect("wt", NULL);
}

static void
no_repository_behind(void **state)
{
	assert_int_equal(rmdir(at("main/.git/objects")), 0);
	expect("wt", NULL);
}

/* Everything that is needed to point back, made by a process that can write only in the project:
 * it is not accepted. */
static void
own_forgery(void **state)
{
	make("evil/worktrees");
	make("evil/worktrees/x");
	put("evil/worktrees/x/gitdir", "@/evil/.git\n");
	put("evil/worktrees/x/commondir", "@/main/.git\n");
	put("evil/.git", "gitdir: @/evil/worktrees/x\n");
	expect("evil", NULL);
}

static void
not_a_file(void **state)
{
	assert_int_equal(unlink(at("wt/.git")), 0);
	assert_int_equal(symlink(at("super/sub/.git"), at("wt/.git")), 0);
	expect("wt", NULL);
	assert_int_equal(unlink(at("wt/.git")), 0);
	assert_int_equal(mkfifo(at("wt/.git"), 0644), 0);
	expect("wt", NULL);
}

/* Which projects git finds a repository above. */
static void
below_a_repository(void **state)
{
	make("main/dir");
	make("main/dir/deep");
	assert_true(worktree_is_below(at("main/dir")));
	assert_true(worktree_is_below(at("main/dir/deep")));
	assert_false(worktree_is_below(at("main")));
	assert_false(worktree_is_below(at("wt")));
	make("wt/dir");
	assert_true(worktree_is_below(at("wt/dir")));
	make("none");
	assert_false(worktree_is_below(at("none")));
	assert_false(worktree_is_below(at("missing")));
	assert_false(worktree_is_below("/"));
	/* /proc is a file system of its own. */
	assert_false(worktree_is_below("/proc/self"));
}

int
main(void)
{
	struct CMUnitTest tests[6 + N_ELEMENTS(claims)] = {
		cmocka_unit_test_setup_teardown(genuine, set_up, tear_down),
		cmocka_unit_test_setup_teardown(points_elsewhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_repository_behind, set_up, tear_down),
		cmocka_unit_test_setup_teardown(own_forgery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_a_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(below_a_repository, set_up, tear_down),
	};

	for (size_t i = 0; i < N_ELEMENTS(claims); i++)
		tests[6 + i] = (struct CMUnitTest){ "claimed", claimed, set_up, tear_down,
			(void *)(uintptr_t)claims[i] };
	return cmocka_run_group_tests_name("worktree", tests, NULL, NULL);
}
