/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a project, by the library and as the user's own git sees them. */
#ifndef KODA_TESTS_KIT_COPYING_H
#define KODA_TESTS_KIT_COPYING_H

#include <sys/wait.h>

#include "tests/kit/cases.h"
#include "tests/kit/hosting.h"

/* As a user has it: a project with two commits, by git itself. */
#define PROJECT                                                                                    \
	"cd \"$1\" && git init -q -b main && echo a >a && mkdir dir && echo c >dir/c && "          \
	"echo '*.o' >.gitignore && git add . && git commit -q -m one && echo more >>a && "         \
	"git commit -q -a -m two"

static UNUSED void
user_git(void)
{
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	setenv("GIT_AUTHOR_NAME", "user", 1);
	setenv("GIT_AUTHOR_EMAIL", "user@localhost", 1);
	setenv("GIT_COMMITTER_NAME", "user", 1);
	setenv("GIT_COMMITTER_EMAIL", "user@localhost", 1);
}

/* Runs a script of the user, with $1: the project, $2: the fixture's directory, $3: a text. Returns
 * true if it succeeds. */
static UNUSED bool
user_says(const struct fixture *f, const char *script, const char *text)
{
	pid_t pid;
	int status;

	user_git();
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-euc", script, "sh", f->root, f->dir, text, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static UNUSED void
user(const struct fixture *f, const char *script, const char *text)
{
	if (!user_says(f, script, text))
		fail_msg("the user's script failed: %s", script);
}

static UNUSED void
begin_with(struct fixture *f, const char *script)
{
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	user(f, script, "");
	fixture_open(f);
}

static UNUSED struct koda_copy *
open_copy(struct fixture *f, const struct koda_copy_options *o)
{
	struct koda_error err;
	struct koda_copy *copy = koda_copy_open(f->ses, o, &err);

	if (copy == NULL)
		fail_msg("copy: %s", err.message);
	return copy;
}

static UNUSED struct koda_copy *
open_worktree(struct fixture *f)
{
	return open_copy(f,
	    &(struct koda_copy_options){ .kind = KODA_WORKSPACE_WORKTREE, .agent = "tester" });
}

static UNUSED struct koda_released
release(struct koda_copy *copy, enum koda_release how)
{
	struct koda_released r;
	struct koda_error err;

	if (koda_copy_release(copy, how, &r, &err) < 0)
		fail_msg("release: %s", err.message);
	return r;
}

/* An agent in the copy, as an embedder makes one. */
static UNUSED struct koda_session *
agent_session(struct fixture *f, const struct koda_copy *copy, struct koda_slot **ret)
{
	struct koda_session_options o = f->options;
	struct koda_error err;
	struct koda_policy *policy = koda_copy_policy(copy, koda_session_policy(f->ses), &err);
	struct koda_session *ses;

	o.root = koda_copy_root(copy);
	o.policy = policy;
	ses = koda_session_open(&o, &err);
	*ret = ses == NULL ? NULL : koda_slot_acquire(ses, NULL, &err);
	if (*ret == NULL)
		fail_msg("agent: %s", err.message);
	koda_policy_free(policy);
	return ses;
}

static UNUSED void
agent(struct fixture *f, const struct koda_copy *copy, const char *shell)
{
	const struct koda_command_options c = { .shell = shell };
	struct koda_command_result r;
	struct koda_slot *slot;
	struct koda_session *ses = agent_session(f, copy, &slot);
	struct koda_error err;

	if (koda_run(slot, &c, &r, &err) < 0)
		fail_msg("agent: %s", err.message);
	if (r.status != 0)
		fail_msg("agent: %s: status %d: %.*s", shell, r.status, (int)r.err.head_len,
		    r.err.head);
	koda_command_result_done(&r);
	koda_session_close(ses);
}

static UNUSED int
count_one(void *data, const struct koda_copied *one)
{
	++*(int *)data;
	return 0;
}

static UNUSED int
count_copies(const struct fixture *f)
{
	struct koda_error err;
	int n = 0;

	assert_int_equal(koda_copies_visit(f->root, count_one, &n, &err), 0);
	return n;
}

/* Nothing of a copy is left: no branch, no worktree, no directory, no record. */
static UNUSED void
all_is_gone(const struct fixture *f, const char *root)
{
	assert_true(user_says(f,
	    "[ -z \"$(git -C \"$1\" branch --list 'koda/*')\" ] && "
	    "[ \"$(git -C \"$1\" worktree list | wc -l)\" -eq 1 ] && "
	    "[ ! -e \"$1/.git/worktrees\" ] && [ ! -e \"$3\" ]",
	    root));
	assert_int_equal(count_copies(f), 0);
}

#endif
