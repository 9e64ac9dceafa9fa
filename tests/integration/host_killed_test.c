/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host is killed while its command plants. Whatever session comes next there finds what was
 * planted: of the same root, of a directory above or below, with other rules, in Plan mode, or
 * without commands. Judged by what is on disk, and by git.
 */
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "tests/kit/hosting.h"

#define PLANTS                                                                                     \
	"mkdir -p sub/.vscode && cp harm sub/.git/hooks/pre-push 2>/dev/null; "                    \
	"git init -q sub/new && cp harm sub/new/.git/hooks/pre-commit && "                         \
	"mkdir -p .vscode && cp harm .vscode/tasks.json && "                                       \
	"mkdir sub/users/.vscode && cp harm sub/users/.vscode/tasks.json && "                      \
	"cp harm sub/deep/.envrc && touch planted && sleep 1000"

static char events[8192];

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind == KODA_EVENT_LEFT || kind == KODA_EVENT_DEGRADED)
		snprintf(events + strlen(events), sizeof(events) - strlen(events), "%s\n", text);
}

static void
shell(const struct fixture *f, const char *script)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (chdir(f->root) == 0)
			execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("%s: 0x%x", script, status);
}

static const char *
state(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/.local/state/koda-sandbox%s", getenv("HOME"), name);
	return path;
}

static bool
is_left(const char *name)
{
	struct stat st;

	return lstat(state(name), &st) == 0;
}

/*
 * Runs the host in its own process, which is killed as soon as its command reports that it has
 * planted.
 */
static void
plant_and_kill(struct fixture *f, const char *script, const char *cwd)
{
	const struct koda_command_options o = { .shell = script, .cwd = cwd };
	struct koda_error err;
	int status;
	pid_t host = fork();

	assert_true(host >= 0);
	if (host == 0) {
		f->ses = koda_session_open(&f->options, &err);
		f->slot = f->ses == NULL ? NULL : koda_slot_acquire(f->ses, NULL, &err);
		if (f->slot == NULL || koda_command_start(f->slot, &o, NULL, NULL, &err) == NULL)
			_exit(1);
		for (;;)
			pause();
	}
	for (uint64_t end = clock_ms() + PATIENCE_MS;
	     !exists(f, "planted") && clock_ms() < end && waitpid(host, &status, WNOHANG) == 0;
	     blink())
		;
	assert_true(exists(f, "planted"));
	assert_int_equal(kill(host, SIGKILL), 0);
	assert_int_equal(waitpid(host, &status, 0), host);
	assert_true(WIFSIGNALED(status));
	assert_true(is_left("/journal"));
}

static void
prepare(struct fixture *f)
{
	events[0] = '\0';
	fixture_prepare(f, KODA_AUTO);
	f->options.commands = true;
	f->options.event = on_event;
	put_text(f, "harm", "#!/bin/sh\ntouch $HOME/harmed\n");
	shell(f,
	    "chmod +x harm; mkdir sub; git init -q sub/users; cp harm sub/users/.git/hooks/pre-push; "
	    "git init -q sub; cp harm sub/.git/hooks/post-checkout; mkdir .idea; cp harm .idea/x; "
	    "mkdir -p sub/deep/.idea; cp harm sub/deep/.idea/x");
}

/* What was planted is gone; what was there before is not. */
static void
expect_clean(const struct fixture *f)
{
	assert_false(exists(f, "sub/new/.git/hooks/pre-commit"));
	assert_false(exists(f, ".vscode/tasks.json"));
	assert_false(exists(f, "sub/users/.vscode/tasks.json"));
	assert_false(exists(f, "sub/deep/.envrc"));
	assert_true(exists(f, "sub/deep/.idea/x"));
	assert_true(exists(f, "sub/new/.git/HEAD"));
	assert_true(exists(f, "sub/users/.git/hooks/pre-push"));
	assert_true(exists(f, "sub/.git/hooks/post-checkout"));
	assert_true(exists(f, ".idea/x"));
	shell(f,
	    "cd sub/new && echo x >x && git add x && git -c user.name=a -c user.email=a@b commit -qm x "
	    "&& test ! -e \"$HOME/harmed\"");
}

/* ---- the next session ---- */

enum rules {
	USUAL, /* the mode's rules */
	FEWER, /* none of the mode's; git's configuration may be changed */
	SHARED /* the mode's rules, and commands write the host's caches */
};

struct next {
	const char *root; /* below the fixture's directory; the killed one's is "project" */
	enum koda_mode mode;
	bool commands;
	enum rules rules;
};

/* Returns a frozen policy that the caller owns. */
static struct koda_policy *
policy_for(const char *root, enum rules rules)
{
	struct koda_error err;
	struct koda_policy *policy =
	    rules == FEWER ? koda_policy_new() : koda_policy_for_agent(KODA_AUTO, root, &err);

	assert_non_null(policy);
	assert_int_equal(koda_policy_add(policy, KODA_ALLOW_WRITE, root, &err), 0);
	assert_int_equal(koda_policy_set_flag(policy,
			     rules == FEWER ? KODA_ALLOW_GIT_CONFIG : KODA_SHARE_CACHES, true,
			     &err),
	    0);
	assert_int_equal(koda_policy_set_trust(policy, KODA_TRUST_AUTO, &err), 0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	return policy;
}

static void
next_session(struct fixture *f, const struct next *next)
{
	struct koda_session_options o = f->options;
	struct koda_policy *policy = NULL;
	struct koda_session *ses;
	struct koda_error err;
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s/%s", f->dir, next->root);
	o.root = root;
	o.mode = next->mode;
	o.commands = next->commands;
	if (next->rules != USUAL)
		policy = policy_for(root, next->rules);
	o.policy = policy;
	ses = koda_session_open(&o, &err);
	if (ses == NULL || koda_slot_acquire(ses, NULL, &err) == NULL)
		fail_msg("%s", err.message);
	koda_session_close(ses);
	koda_policy_free(policy);
}

static void
found_by(const struct next *next)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	assert_true(exists(&f, "sub/new/.git/hooks/pre-commit"));
	next_session(&f, next);
	expect_clean(&f);
	assert_false(is_left("/journal"));
	/* Only once: what the user makes now stays. */
	put_text(&f, "sub/new/.git/hooks/pre-push", "the user's");
	shell(&f, "mkdir -p .vscode; echo mine >.vscode/tasks.json");
	next_session(&f, next);
	assert_true(exists(&f, "sub/new/.git/hooks/pre-push"));
	assert_true(exists(&f, ".vscode/tasks.json"));
	fixture_end(&f);
}

#define FOUND_BY(name, ...)                                                                        \
	static void name(void **state_)                                                            \
	{                                                                                          \
		found_by(&(const struct next){ __VA_ARGS__ });                                     \
	}

FOUND_BY(same, "project", KODA_AUTO, true, USUAL)
FOUND_BY(above, ".", KODA_AUTO, true, USUAL)
FOUND_BY(below, "project/sub", KODA_AUTO, true, USUAL)
FOUND_BY(far_below, "project/sub/users", KODA_AUTO, true, USUAL)
FOUND_BY(other_rules, "project", KODA_AUTO, true, FEWER)
FOUND_BY(other_rules_above, ".", KODA_AUTO, true, FEWER)
FOUND_BY(plan, "project", KODA_PLAN, true, USUAL)
FOUND_BY(plan_of_files, "project/sub", KODA_PLAN, false, USUAL)
FOUND_BY(safe_of_files, ".", KODA_SAFE, false, USUAL)
FOUND_BY(other_rules_of_files, "project", KODA_AUTO, false, FEWER)

/* A session elsewhere does not clean up: what was planted stays. */
static void
elsewhere(void **state_)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	next_session(&f, &(const struct next){ "helpers", KODA_AUTO, true, USUAL });
	assert_true(exists(&f, "sub/new/.git/hooks/pre-commit"));
	assert_true(is_left("/journal"));
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	expect_clean(&f);
	fixture_end(&f);
}

/* Two hosts were killed, each with its own journal; the next session above both cleans up both. */
static void
several(void **state_)
{
	struct fixture f, was;
	char root[PATH_MAX - 64];

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	/*
	 * The second host's root is the directory beside: cleaning up the first one does not cover
	 * it.
	 */
	shell(&f, "mkdir ../beside; cp harm ../beside; rm planted");
	snprintf(root, sizeof(root), "%s/beside", f.dir);
	was = f;
	snprintf(f.root, sizeof(f.root), "%s", root);
	f.options.root = root;
	plant_and_kill(&f,
	    "git init -q more && cp harm more/.git/hooks/pre-commit && touch planted; sleep 1000",
	    NULL);
	next_session(&f, &(const struct next){ ".", KODA_PLAN, false, USUAL });
	assert_false(exists(&f, "more/.git/hooks/pre-commit"));
	expect_clean(&was);
	assert_false(is_left("/journal"));
	fixture_end(&f);
}

/* The user has renamed the root meanwhile. */
static void
renamed(void **state_)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	shell(&f, "mv ../project ../moved && ln -s moved ../project");
	next_session(&f, &(const struct next){ "moved/sub", KODA_AUTO, true, USUAL });
	expect_clean(&f);
	shell(&f, "rm ../project && mv ../moved ../project");
	fixture_end(&f);
}

/* The root is reached through a link. */
static void
by_a_link(void **state_)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	shell(&f, "ln -s project/sub ../link");
	next_session(&f, &(const struct next){ "link", KODA_AUTO, true, USUAL });
	expect_clean(&f);
	fixture_end(&f);
}

/* Another directory has the name now: it was never that session's root. */
static void
replaced(void **state_)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	shell(&f,
	    "mv ../project ../away && mkdir ../project && cd ../project && git init -q own && "
	    "echo x >own/.git/hooks/pre-push && mkdir .vscode && echo x >.vscode/tasks.json");
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	assert_true(exists(&f, "own/.git/hooks/pre-push"));
	assert_true(exists(&f, ".vscode/tasks.json"));
	assert_true(is_left("/journal"));
	shell(&f, "rm -rf ../project && mv ../away ../project");
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	expect_clean(&f);
	fixture_end(&f);
}

/* The root was removed: there is nothing to find, and other sessions are not hindered. */
static void
removed(void **state_)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	shell(&f, "mv ../project ../gone && mkdir ../project && rm -rf ../gone");
	next_session(&f, &(const struct next){ ".", KODA_AUTO, true, USUAL });
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	fixture_end(&f);
}

static unsigned waits_left;

static int
give_up_at_last(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	return waits_left-- == 0 ? -1 : poll(fds, n, timeout_ms);
}

/* The caller gives up at any wait of the recovery: the journal stays, and the next session finishes
 * it. */
static void
given_up(void **state_)
{
	struct fixture f;
	unsigned tries = 0;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	f.options.wait = give_up_at_last;
	for (; is_left("/journal"); tries++) {
		struct koda_session *ses;
		struct koda_error err;

		ses = koda_session_open(&f.options, &err);
		assert_non_null(ses);
		waits_left = tries;
		assert_null(koda_slot_acquire(ses, NULL, &err));
		assert_code(&err, KODA_TIMEOUT);
		koda_session_close(ses);
		if (tries == 0)
			assert_true(exists(&f, "sub/new/.git/hooks/pre-commit"));
	}
	/* At least Ready, Scan and Compare are waited for. */
	assert_true(tries > 3);
	assert_null(strstr(events, "killed session"));
	f.options.wait = NULL;
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	expect_clean(&f);
	fixture_end(&f);
}

static void
spoil(const struct fixture *f, const char *how)
{
	char script[PATH_MAX + 256];

	snprintf(script, sizeof(script), "for j in '%s'/*; do %s; done", state("/journal"), how);
	shell(f, script);
}

/*
 * What cannot be read cannot be cleaned up: no command runs there, and the error says what to do.
 */
static void
damaged(void **state_)
{
	static const char *const ways[] = { ": >\"$j\"",
		"dd if=/dev/zero of=\"$j\" bs=1 count=20 seek=30 conv=notrunc 2>/dev/null",
		"head -c 100 \"$j\" >x && cat x >\"$j\" && rm x", "echo garbage >\"$j\"" };

	for (size_t i = 0; i < N_ELEMENTS(ways); i++) {
		struct koda_session *ses;
		struct koda_error err;
		struct fixture f;

		prepare(&f);
		plant_and_kill(&f, PLANTS, NULL);
		spoil(&f, ways[i]);
		ses = koda_session_open(&f.options, &err);
		assert_non_null(ses);
		assert_null(koda_slot_acquire(ses, NULL, &err));
		assert_code(&err, KODA_UNSUPPORTED);
		assert_non_null(strstr(err.message, "is damaged"));
		assert_non_null(strstr(err.message, "remove the journal"));
		koda_session_close(ses);
		/* Without commands it is only reported. */
		next_session(&f, &(const struct next){ "project/sub", KODA_AUTO, false, USUAL });
		assert_non_null(strstr(events, "is damaged"));
		next_session(&f, &(const struct next){ "helpers", KODA_AUTO, true, USUAL });
		spoil(&f, "rm -f \"$j\"");
		next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
		fixture_end(&f);
	}
}

/* An incomplete frame at the end only means that less is known. */
static void
cut_at_the_end(void **state_)
{
	struct fixture f;

	prepare(&f);
	plant_and_kill(&f, PLANTS, NULL);
	spoil(&f, "printf '\\0\\0\\1\\0abc' >>\"$j\"");
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	expect_clean(&f);
	fixture_end(&f);
}

/* The journal of a live session is left alone, whatever other session begins there. */
static void
live(void **state_)
{
	const struct koda_command_options o = { .shell = "git init -q made && sleep 1000",
		.background = true };
	struct koda_command *c;
	struct koda_error err;
	struct fixture f;

	prepare(&f);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	c = koda_command_start(f.slot, &o, NULL, NULL, &err);
	assert_non_null(c);
	assert_true(is_left("/journal"));
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	next_session(&f, &(const struct next){ ".", KODA_PLAN, false, USUAL });
	assert_true(is_left("/journal"));
	koda_slot_release(f.slot);
	koda_command_free(c);
	assert_false(is_left("/journal"));
	fixture_end(&f);
}

/*
 * A command of a live session has just planted something that its host has not checked yet: another
 * session does not take it for something that was there before.
 */
static void
live_and_planting(void **state_)
{
	static const struct next nexts[] = { { "project", KODA_AUTO, true, USUAL },
		{ ".", KODA_AUTO, true, USUAL }, { "project/sub", KODA_AUTO, true, USUAL } };
	const struct koda_command_options o = {
		.shell = "touch ready; until test -e go; do sleep 0.01; done; git init -q sub/new; "
			 "cp harm sub/new/.git/hooks/pre-commit; touch planted; sleep 1000"
	};

	for (size_t i = 0; i < N_ELEMENTS(nexts); i++) {
		struct koda_error err;
		struct fixture f;
		int status;
		pid_t host;

		prepare(&f);
		host = fork();
		assert_true(host >= 0);
		if (host == 0) {
			alarm(PATIENCE_MS / 1000);
			f.ses = koda_session_open(&f.options, &err);
			f.slot = f.ses == NULL ? NULL : koda_slot_acquire(f.ses, NULL, &err);
			if (f.slot == NULL ||
			    koda_command_start(f.slot, &o, NULL, NULL, &err) == NULL)
				_exit(1);
			for (;;)
				pause();
		}
		for (uint64_t end = clock_ms() + PATIENCE_MS;
		     !exists(&f, "ready") && clock_ms() < end; blink())
			;
		assert_int_equal(kill(host, SIGSTOP), 0);
		put_text(&f, "go", "");
		for (uint64_t end = clock_ms() + PATIENCE_MS;
		     !exists(&f, "planted") && clock_ms() < end; blink())
			;
		assert_true(exists(&f, "sub/new/.git/hooks/pre-commit"));
		next_session(&f, &nexts[i]);
		assert_false(exists(&f, "sub/new/.git/hooks/pre-commit"));
		assert_true(exists(&f, "sub/users/.git/hooks/pre-push"));
		kill(host, SIGKILL);
		assert_int_equal(waitpid(host, &status, 0), host);
		next_session(&f, &nexts[0]);
		assert_true(exists(&f, "sub/users/.git/hooks/pre-push"));
		assert_false(is_left("/journal"));
		fixture_end(&f);
	}
}

/*
 * The killed session's processes may still be ending when the next session begins: it waits for
 * them.
 */
static void
at_once(void **state_)
{
	for (int i = 0; i < 5; i++) {
		struct fixture f;

		prepare(&f);
		plant_and_kill(&f,
		    "git init -q sub/new; touch planted; for i in 1 2 3 4; do "
		    "(while :; do cp harm sub/new/.git/hooks/pre-commit; done) & done; wait",
		    NULL);
		next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
		assert_false(exists(&f, "sub/new/.git/hooks/pre-commit"));
		fixture_end(&f);
	}
}

/*
 * A command whose policy shares the caches with the host plants in a cache: the next session that
 * shares them finds it, whatever its root is. A session with caches of its own, which give no
 * access to the host's, does not touch it.
 */
static void
in_a_cache(void **state_)
{
	struct koda_policy *policy;
	struct fixture f;

	prepare(&f);
	shell(&f, "mkdir -p \"$HOME/.cargo\"; echo old >\"$HOME/.cargo/credentials.toml\"");
	policy = policy_for(f.root, SHARED);
	f.options.policy = policy;
	plant_and_kill(&f, "cp harm \"$HOME/.cargo/config.toml\"; touch planted; sleep 1000", NULL);
	koda_policy_free(policy);
	f.options.policy = NULL;
	shell(&f, "test -e \"$HOME/.cargo/config.toml\"");
	next_session(&f, &(const struct next){ "helpers", KODA_AUTO, true, USUAL });
	shell(&f, "test -e \"$HOME/.cargo/config.toml\"");
	next_session(&f, &(const struct next){ "helpers", KODA_AUTO, true, SHARED });
	shell(&f,
	    "test ! -e \"$HOME/.cargo/config.toml\" && test -e \"$HOME/.cargo/credentials.toml\"");
	next_session(&f, &(const struct next){ "project", KODA_AUTO, true, USUAL });
	assert_false(is_left("/journal"));
	shell(&f, "rm -r \"$HOME/.cargo\"");
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same),
		cmocka_unit_test(above),
		cmocka_unit_test(below),
		cmocka_unit_test(far_below),
		cmocka_unit_test(other_rules),
		cmocka_unit_test(other_rules_above),
		cmocka_unit_test(plan),
		cmocka_unit_test(plan_of_files),
		cmocka_unit_test(safe_of_files),
		cmocka_unit_test(other_rules_of_files),
		cmocka_unit_test(given_up),
		cmocka_unit_test(elsewhere),
		cmocka_unit_test(several),
		cmocka_unit_test(renamed),
		cmocka_unit_test(by_a_link),
		cmocka_unit_test(replaced),
		cmocka_unit_test(removed),
		cmocka_unit_test(damaged),
		cmocka_unit_test(cut_at_the_end),
		cmocka_unit_test(live),
		cmocka_unit_test(live_and_planting),
		cmocka_unit_test(at_once),
		cmocka_unit_test(in_a_cache),
	};

	return cmocka_run_group_tests_name("host_killed", tests, NULL, NULL);
}
