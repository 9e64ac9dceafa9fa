/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/copy: worktrees for agents. No commit, file or branch is lost: what is found in a copy keeps
 * it, and what a killed host leaves is listed.
 */
#include "tests/kit/copying.h"

static void
made_and_removed(void **state)
{
	struct koda_released r;
	struct koda_copy *copy;
	struct fixture f;
	char root[PATH_MAX];

	begin_with(&f, PROJECT);
	copy = open_worktree(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	assert_int_equal(count_copies(&f), 1);
	assert_int_equal(strncmp(koda_copy_branch(copy), "koda/wt/tester-", 15), 0);
	assert_int_equal(strlen(koda_copy_branch(copy)), 15 + 8);
	assert_true(user_says(&f,
	    "cd \"$3\" && git diff --exit-code && [ -z \"$(git status --porcelain --ignored)\" ] && "
	    "cmp a \"$1/a\" && cmp dir/c \"$1/dir/c\" && [ \"$(git rev-parse HEAD)\" = "
	    "\"$(git -C \"$1\" rev-parse main)\" ]",
	    root));
	agent(&f, copy, "git status && git log && cat a && touch x && rm x");
	r = release(copy, KODA_RELEASE_CLEAN);
	assert_string_equal(r.reason, "");
	assert_true(r.copy_removed && r.branch_removed);
	assert_string_equal(r.hint, "");
	koda_copy_close(copy);
	all_is_gone(&f, root);
	assert_true(user_says(&f,
	    "[ -z \"$(git -C \"$1\" status --porcelain)\" ] && git -C \"$1\" fsck --strict", ""));
	fixture_end(&f);
}

/* ---- what keeps a copy ---- */

static const struct {
	const char *label, *did, *reason;
	/* What must be there afterwards: a script of the user, $3: the copy. */
	const char *kept;
} works[] = {
	{ "changed", "echo x >>a", "changed", "grep -q x \"$3/a\"" },
	{ "same size and time", "touch -r a /tmp/t; echo b >a; echo MORE >>a; touch -r /tmp/t a",
	    "changed", "grep -q MORE \"$3/a\"" },
	{ "deleted", "rm a", "changed", "[ ! -e \"$3/a\" ]" },
	{ "mode", "chmod +x a", "changed", "[ -x \"$3/a\" ]" },
	{ "untracked", "echo x >new", "changed", "grep -q x \"$3/new\"" },
	{ "ignored", "echo x >x.o", "changed", "grep -q x \"$3/x.o\"" },
	{ "hidden by a flag", "git update-index --assume-unchanged a; echo x >a", "changed",
	    "grep -q x \"$3/a\"" },
	{ "hidden by a sparse checkout", "git update-index --skip-worktree a; echo x >a", "changed",
	    "grep -q x \"$3/a\"" },
	{ "hidden by an exclude",
	    "echo new >\"$(git rev-parse --git-path info/exclude)\"; echo x >new", "changed",
	    "grep -q x \"$3/new\"" },
	{ "staged", "echo x >new; git add new; rm new", "staged", "git -C \"$3\" show :new" },
	{ "committed", "echo x >>a; git -c user.name=a -c user.email=a commit -q -a -m mine",
	    "commits", "git -C \"$1\" log --all --format=%s | grep -q mine" },
	{ "committed, then reset",
	    "echo x >>a; git -c user.name=a -c user.email=a commit -q -a -m mine; "
	    "git reset -q --hard HEAD~1",
	    "commits", "git -C \"$3\" log -g --format=%s | grep -q mine" },
	{ "committed, detached",
	    "git checkout -q --detach; echo x >>a; git -c user.name=a -c user.email=a commit -q -a "
	    "-m mine",
	    "commits", "git -C \"$3\" log --format=%s | grep -q mine" },
	{ "on another branch",
	    "git checkout -q -b other; echo x >>a; git -c user.name=a -c user.email=a commit -q -a "
	    "-m mine; git checkout -q -",
	    "commits", "git -C \"$1\" log other --format=%s | grep -q mine" },
	{ "a repository in it", "git init -q nested; echo x >nested/x", "changed",
	    "grep -q x \"$3/nested/x\"" },
	{ "a directory that cannot be read", "mkdir no; echo x >no/x; chmod 0 no", "files",
	    "chmod 700 \"$3/no\" && grep -q x \"$3/no/x\"" },
	{ "a pipe", "mkfifo pipe", "files", "[ -p \"$3/pipe\" ]" },
	{ "in the middle of a merge",
	    "git checkout -q -b o HEAD~1; echo z >>a; git -c user.name=a -c user.email=a commit -q "
	    "-a -m o; git checkout -q -; git merge o || :",
	    "merge", "[ -e \"$(git -C \"$3\" rev-parse --git-path MERGE_HEAD)\" ]" },
};

static void
kept(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct koda_released r;
	struct koda_copy *copy;
	struct koda_error err;
	struct fixture f;
	char root[PATH_MAX], id[64], branch[128];

	begin_with(&f, PROJECT);
	copy = open_worktree(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	snprintf(id, sizeof(id), "%s", koda_copy_id(copy));
	snprintf(branch, sizeof(branch), "%s", koda_copy_branch(copy));
	agent(&f, copy, works[i].did);
	r = release(copy, KODA_RELEASE_CLEAN);
	assert_false(r.copy_removed || r.branch_removed);
	if (strstr(r.reason, works[i].reason) == NULL)
		fail_msg("kept because: %s", r.reason);
	assert_non_null(strstr(r.hint, branch));
	koda_copy_close(copy);
	assert_true(user_says(&f, works[i].kept, root));
	assert_int_equal(count_copies(&f), 1);
	/* It is gone on with, and in the end discarded. */
	copy =
	    open_copy(&f, &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE, .id = id });
	assert_string_equal(koda_copy_root(copy), root);
	assert_null(koda_copy_find(f.ses, id, &err));
	assert_int_equal(err.code, KODA_CONFLICT);
	r = release(copy, KODA_RELEASE_DISCARD);
	assert_true(r.copy_removed && r.branch_removed);
	koda_copy_close(copy);
	all_is_gone(&f, root);
	fixture_end(&f);
}

/* ---- committed ---- */

static void
committed(void **state)
{
	char root[PATH_MAX], branch[128], hint[2048];
	struct koda_released r;
	struct koda_copy *copy;
	struct fixture f;

	begin_with(&f, PROJECT);
	copy = open_worktree(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	snprintf(branch, sizeof(branch), "%s", koda_copy_branch(copy));
	agent(&f, copy, "echo x >>a; echo new >new; rm dir/c");
	r = release(copy, KODA_RELEASE_COMMIT);
	assert_true(r.committed && r.copy_removed);
	assert_false(r.branch_removed);
	assert_int_equal(r.commits, 1);
	snprintf(hint, sizeof(hint), "set -e\n%s\n", r.hint);
	koda_copy_close(copy);
	assert_int_equal(count_copies(&f), 0);
	assert_true(user_says(&f,
	    "cd \"$1\" && [ \"$(git show $3:new)\" = new ] && ! git show $3:dir/c && "
	    "[ \"$(git log -1 --format=%an $3)\" = koda ] && [ ! -e .git/worktrees ]",
	    branch));
	/* The command lines of the hint: review, merge, discard. */
	assert_true(user_says(&f, hint, ""));
	assert_true(user_says(&f, "grep -q x \"$1/a\" && [ -e \"$1/new\" ]", ""));
	all_is_gone(&f, root);
	fixture_end(&f);
}

static const struct {
	const char *label, *did, *reason, *kept;
} rests[] = {
	{ "commit: ignored files", "echo x >x.o; echo new >new", "not all",
	    "grep -q x \"$3/x.o\" && [ \"$(git -C \"$3\" show HEAD:new)\" = new ] && "
	    "[ -z \"$(git -C \"$3\" status --porcelain)\" ]" },
	{ "commit: staged only", "echo x >new; git add new; rm new", "staged",
	    "git -C \"$3\" show :new" },
	{ "commit: a repository in it", "git init -q nested; echo x >nested/x", "files",
	    "grep -q x \"$3/nested/x\"" },
	{ "commit: another branch", "git checkout -q -b other; echo x >>a", "not all",
	    "grep -q x \"$3/a\"" },
};

static void
commit_keeps(void **state)
{
	const size_t i = (uintptr_t)*state;
	struct koda_released r;
	struct koda_copy *copy;
	struct fixture f;
	char root[PATH_MAX];

	begin_with(&f, PROJECT);
	copy = open_worktree(&f);
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	agent(&f, copy, rests[i].did);
	r = release(copy, KODA_RELEASE_COMMIT);
	assert_false(r.copy_removed || r.branch_removed);
	if (strstr(r.reason, rests[i].reason) == NULL)
		fail_msg("kept because: %s", r.reason);
	koda_copy_close(copy);
	assert_true(user_says(&f, rests[i].kept, root));
	fixture_end(&f);
}

/* ---- agents beside each other ---- */

static struct koda_command *
start(struct koda_slot *slot, const char *shell)
{
	const struct koda_command_options o = { .shell = shell };
	struct koda_error err;
	struct koda_command *c = koda_command_start(slot, &o, NULL, NULL, &err);

	if (c == NULL)
		fail_msg("%s: %s", shell, err.message);
	return c;
}

static void
wait_well(struct koda_command *c)
{
	struct koda_command_result r;
	struct koda_error err;

	if (koda_command_wait(c, PATIENCE_MS, &err) != 1 || koda_command_result(c, &r, &err) < 0)
		fail_msg("wait: %s", err.message);
	if (r.status != 0)
		fail_msg("status %d: %.*s", r.status, (int)r.err.head_len, r.err.head);
	koda_command_result_done(&r);
	koda_command_free(c);
}

#define COMMITS(file)                                                                              \
	"for i in 1 2 3 4 5; do echo $i >>" file "; git add " file "; git -c user.name=a -c "      \
	"user.email=a commit -q -m " file                                                          \
	"$i || exit 1; done; [ -z \"$(git status --porcelain)\" ]"

/* Each commits in a copy of its own, at the same time, while a command of the project's own slot
 * runs. */
static void
two_at_once(void **state)
{
	struct koda_slot *own, *slot[2];
	struct koda_session *ses[2];
	struct koda_command *c[2], *waits;
	struct koda_released r;
	struct koda_copy *copy[2];
	struct fixture f;

	begin_with(&f, PROJECT);
	own = fixture_acquire(&f);
	waits = start(own, "until [ -e over ]; do sleep 0.1; done; git log --all >/dev/null");
	copy[0] = open_worktree(&f);
	copy[1] = open_worktree(&f);
	assert_string_not_equal(koda_copy_branch(copy[0]), koda_copy_branch(copy[1]));
	ses[0] = agent_session(&f, copy[0], &slot[0]);
	ses[1] = agent_session(&f, copy[1], &slot[1]);
	c[0] = start(slot[0], COMMITS("one"));
	c[1] = start(slot[1], COMMITS("two"));
	wait_well(c[0]);
	wait_well(c[1]);
	koda_session_close(ses[0]);
	koda_session_close(ses[1]);
	put_text(&f, "over", "");
	wait_well(waits);
	koda_slot_release(own);
	for (size_t i = 0; i < 2; i++) {
		r = release(copy[i], KODA_RELEASE_COMMIT);
		assert_int_equal(r.commits, 5);
		assert_true(r.copy_removed && !r.branch_removed && !r.committed);
		assert_true(
		    user_says(&f, "cd \"$1\" && git merge -q \"$3\"", koda_copy_branch(copy[i])));
		koda_copy_close(copy[i]);
	}
	assert_true(user_says(&f,
	    "cd \"$1\" && [ $(wc -l <one) -eq 5 ] && [ $(wc -l <two) -eq 5 ] && git fsck --strict",
	    ""));
	fixture_end(&f);
}

/* What an agent in a copy can reach of the project. */
static void
agent_is_confined(void **state)
{
	struct koda_copy *copy;
	struct fixture f;
	char shell[2 * PATH_MAX];

	begin_with(&f, PROJECT);
	copy = open_worktree(&f);
	snprintf(shell, sizeof(shell),
	    "! echo x >'%s/a' && ! echo x >'%s/.git/config' && ! echo x >'%s/.git/hooks/pre-commit' "
	    "&& ! mv .git other && echo x >mine && rm mine",
	    f.root, f.root, f.root);
	agent(&f, copy, shell);
	assert_true(release(copy, KODA_RELEASE_CLEAN).copy_removed);
	koda_copy_close(copy);
	fixture_end(&f);
}

static void
inside_the_root(void **state)
{
	char root[PATH_MAX], want[PATH_MAX];
	struct koda_copy *copy;
	struct fixture f;

	begin_with(&f, PROJECT);
	copy = open_copy(&f,
	    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE,
		.inside = true,
		.agent = "..//\xc3\xa4 b..c--- and a name that is too long" });
	snprintf(root, sizeof(root), "%s", koda_copy_root(copy));
	snprintf(want, sizeof(want), "%s/.koda/worktrees/%s", f.root, koda_copy_id(copy));
	assert_string_equal(root, want);
	snprintf(want, sizeof(want), "koda/wt/b.-c----and-a-name-that-is-too-%s",
	    koda_copy_id(copy));
	assert_string_equal(koda_copy_branch(copy), want);
	assert_true(user_says(&f, "[ -z \"$(git -C \"$1\" status --porcelain)\" ]", ""));
	agent(&f, copy, "echo x >>a");
	assert_false(release(copy, KODA_RELEASE_CLEAN).copy_removed);
	assert_true(release(copy, KODA_RELEASE_DISCARD).copy_removed);
	koda_copy_close(copy);
	all_is_gone(&f, root);
	fixture_end(&f);
}

static void
refused(void **state)
{
	static const char *const ids[] = { "", ".", "..", "a/b", "../x", "a b", ".hidden",
		"a-name-of-more-than-thirty-two-bytes" };
	struct koda_copy_options o = { .kind = KODA_WORKSPACE_WORKTREE };
	struct koda_error err;
	struct fixture f;

	begin_with(&f, PROJECT);
	for (size_t i = 0; i < N_ELEMENTS(ids); i++) {
		o.id = ids[i];
		assert_null(koda_copy_open(f.ses, &o, &err));
		assert_code(&err, KODA_INVALID);
		assert_null(koda_copy_find(f.ses, ids[i], &err));
		assert_code(&err, KODA_INVALID);
	}
	assert_null(koda_copy_find(f.ses, "unknown1", &err));
	assert_code(&err, KODA_INVALID);
	assert_null(koda_copy_open(f.ses,
	    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_DRAFT }, &err));
	assert_code(&err, KODA_INVALID);
	assert_null(koda_slot_open(f.ses,
	    &(struct koda_slot_options){ .workspace = KODA_WORKSPACE_WORKTREE }, &err));
	assert_code(&err, KODA_INVALID);
	koda_session_close(f.ses);
	f.options.mode = KODA_PLAN;
	fixture_open(&f);
	assert_null(koda_copy_open(f.ses,
	    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE }, &err));
	assert_code(&err, KODA_POLICY_DENIED);
	/* A session that is narrowed to a directory does not get the git directory above it. */
	koda_session_close(f.ses);
	f.options.mode = KODA_AUTO;
	f.options.narrowed = true;
	f.options.root = at(&f, "dir");
	fixture_open(&f);
	assert_null(koda_copy_open(f.ses,
	    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE }, &err));
	assert_code(&err, KODA_POLICY_DENIED);
	assert_int_equal(count_copies(&f), 0);
	fixture_end(&f);
}

/* ---- killed hosts ---- */

struct found {
	char id[64];
	bool unfinished;
};

static int
find_one(void *data, const struct koda_copied *one)
{
	struct found *ret = data;

	if (one->in_use)
		return 2;
	snprintf(ret->id, sizeof(ret->id), "%s", one->id);
	ret->unfinished = one->unfinished;
	return 1;
}

/* A host that makes a copy or releases the one with that id, and is killed after some time. Returns
 * true if it was over before. */
static bool
killed_after(const struct fixture *f, const char *id, unsigned ms)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct koda_error err;
		struct koda_session *ses = koda_session_open(&f->options, &err);
		struct koda_released r;
		struct koda_copy *copy = id == NULL
		    ? koda_copy_open(ses,
			  &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE }, &err)
		    : koda_copy_find(ses, id, &err);

		if (copy != NULL && id != NULL)
			koda_copy_release(copy, KODA_RELEASE_CLEAN, &r, &err);
		_exit(copy == NULL);
	}
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status);
}

/* What a killed host has left is removed. Returns true if it was unfinished. */
static bool
clean_up(struct fixture *f, enum koda_release how)
{
	struct found left = { 0 };
	struct koda_error err;
	struct koda_copy *copy;
	int r;

	/* A program that it was starting may hold the lock until it is executed. */
	while ((r = koda_copies_visit(f->root, find_one, &left, &err)) == 2)
		blink();
	/* git takes this lock for every reference that it removes, and says what to do. */
	user(f, "rm -f \"$1/.git/packed-refs.lock\"", "");
	if (r == 1) {
		copy = koda_copy_find(f->ses, left.id, &err);
		if (copy == NULL)
			fail_msg("find: %s", err.message);
		assert_true(release(copy, left.unfinished ? how : KODA_RELEASE_CLEAN).copy_removed);
		koda_copy_close(copy);
	}
	all_is_gone(f, "/nonexistent");
	return r == 1 && left.unfinished;
}

/* Whenever it is killed, what is left is listed, and can be removed without a trace. */
static void
killed(void **state)
{
	bool over[2] = { false, false };
	size_t unfinished = 0;
	struct fixture f;
	char id[64];

	begin_with(&f, PROJECT);
	for (unsigned ms = 5; !over[0] || !over[1]; ms += 15) {
		struct koda_copy *copy;

		over[0] = killed_after(&f, NULL, ms);
		unfinished += clean_up(&f, KODA_RELEASE_DISCARD);
		copy = open_worktree(&f);
		snprintf(id, sizeof(id), "%s", koda_copy_id(copy));
		koda_copy_close(copy);
		over[1] = killed_after(&f, id, ms);
		unfinished += clean_up(&f, KODA_RELEASE_CLEAN);
	}
	assert_true(unfinished > 0);
	fixture_end(&f);
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(made_and_removed),
		cmocka_unit_test(committed),
		cmocka_unit_test(two_at_once),
		cmocka_unit_test(agent_is_confined),
		cmocka_unit_test(inside_the_root),
		cmocka_unit_test(refused),
		cmocka_unit_test(killed),
	};
	struct CMUnitTest tests[N_ELEMENTS(others) + N_ELEMENTS(works) + N_ELEMENTS(rests)];
	size_t n = 0;

	OTHERS(others);
	CASES(works, kept);
	CASES(rests, commit_keeps);
	return _cmocka_run_group_tests("copy", tests, n, NULL, NULL);
}
