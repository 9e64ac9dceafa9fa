/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command plants in its last moment is gone before the program that ran it has ended,
 * whatever ends that program: a signal, the end of its client's input, or a client that stops
 * reading. Tests the installed programs.
 */
#include "tests/kit/mcp_talk.h"

/* Plants in a loop, so that there is something new between any two checks. Ignores signals. */
#define PLANTS(also)                                                                                  \
	"trap '' TERM INT HUP; git init -q new; while :; do cp harm new/.git/hooks/pre-commit; " also \
	"done 2>/dev/null"

/* Plants when it is asked to end. */
#define PLANTS_THEN                                                                                \
	"trap 'cp harm new/.git/hooks/pre-commit; exit 0' TERM INT HUP; git init -q new; "         \
	"touch ready; while :; do sleep 0.01; done"

static const char *
in_project(const char *name)
{
	return proof_path("%.*s/%s", PATH_MAX - 64, talk_project, name);
}

static bool
is_there(const char *name)
{
	return proof_exists(in_project(name));
}

static void
wait_until_there(const char *name)
{
	for (double end = proof_seconds() + PATIENCE_MS / 1000.0; !is_there(name);) {
		if (proof_seconds() > end)
			fail_msg("'%s' does not appear", name);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

static void
prepare(void)
{
	process_shell("printf '#!/bin/sh\\ntouch harmed\\n' >\"$1/harm\"; chmod +x \"$1/harm\"",
	    talk_project, NULL, NULL);
}

/* What the user does next does not run what was planted. */
static void
expect_clean(void)
{
	assert_false(is_there("new/.git/hooks/pre-commit"));
	assert_true(is_there("new/.git/HEAD"));
	process_shell("cd \"$1/new\" && echo x >x && git add x && "
		      "git -c user.name=a -c user.email=a@b commit -qm x && test ! -e harmed",
	    talk_project, NULL, NULL);
}

static int
end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/*
 * Sends signo repeatedly until the process ends, with pauses, since two pending instances of a
 * signal merge into one.
 */
static void
insist(pid_t pid, int signo)
{
	int status;

	alarm(PATIENCE_MS / 1000);
	do {
		kill(pid, signo);
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	} while (waitpid(pid, &status, WNOHANG) == 0);
	alarm(0);
	/* A signal may also arrive after the handlers are gone, when it has its default effect. */
	assert_true(WIFEXITED(status) || WTERMSIG(status) == signo);
}

/* ---- mcp ---- */

enum { END_OF_INPUT = -1, NOBODY_READS = -2 };

static void
end_server_by(int how)
{
	struct client c;

	prepare();
	c = talk_serve("auto", NULL, NULL);
	talk_expect(&c, "", "run_command",
	    json_pack("{s:s, s:b}", "command", PLANTS(""), "background", 1));
	wait_until_there("new/.git/hooks/pre-commit");
	if (how == END_OF_INPUT) {
		close(c.p.in);
		c.p.in = -1;
	} else if (how == NOBODY_READS) {
		close(c.p.out);
		c.p.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
	} else {
		assert_int_equal(kill(c.p.pid, how), 0);
	}
	assert_true(WIFEXITED(end_of(c.p.pid)));
	expect_clean();
	free(c.buf);
	process_forget(&c.p);
}

static void
test_mcp_sigterm(void **state)
{
	end_server_by(SIGTERM);
}

static void
test_mcp_sigint(void **state)
{
	end_server_by(SIGINT);
}

static void
test_mcp_sighup(void **state)
{
	end_server_by(SIGHUP);
}

static void
test_mcp_end_of_input(void **state)
{
	end_server_by(END_OF_INPUT);
}

static void
test_mcp_nobody_reads(void **state)
{
	end_server_by(NOBODY_READS);
}

/* The audit log records what happened at the end. */
static void
test_mcp_audit(void **state)
{
	char log[PATH_MAX];
	struct client c;

	snprintf(log, sizeof(log), "%.*s/audit", PATH_MAX - 64, dir);

	prepare();
	c = talk_serve("auto", log, NULL);
	talk_expect(&c, "", "run_command",
	    json_pack("{s:s, s:b}", "command", PLANTS(""), "background", 1));
	wait_until_there("new/.git/hooks/pre-commit");
	assert_int_equal(kill(c.p.pid, SIGTERM), 0);
	assert_true(WIFEXITED(end_of(c.p.pid)));
	expect_clean();
	process_shell("grep -q 'hooks/pre-commit.*quarantine' \"$1\"", log, NULL, NULL);
	free(c.buf);
	process_forget(&c.p);
}

/* ---- run, shell ---- */

static void
end_run_by(const char *script, const char *ready, int signo)
{
	struct process p;

	prepare();
	p = process_start((const char *[]){ talk_program(), "run", "--root", talk_project, "--mode",
	    "auto", "--", "sh", "-c",
	    proof_path("cd '%.*s'; %s", PATH_MAX - 2048, talk_project, script), NULL });
	wait_until_there(ready);
	if (signo != 0) {
		insist(p.pid, signo);
	} else {
		close(p.out);
		p.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(WIFEXITED(end_of(p.pid)));
	}
	expect_clean();
	process_forget(&p);
}

static void
test_run_signals(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

	for (size_t i = 0; i < N_ELEMENTS(signals); i++) {
		end_run_by(PLANTS_THEN, "ready", signals[i]);
		process_shell("rm -rf \"$1/new\" \"$1/ready\"", talk_project, NULL, NULL);
		end_run_by(PLANTS(""), "new/.git/hooks/pre-commit", signals[i]);
		process_shell("rm -rf \"$1/new\"", talk_project, NULL, NULL);
	}
}

static void
test_run_broken_pipe(void **state)
{
	end_run_by("trap '' TERM INT HUP; git init -q new; "
		   "while cp harm new/.git/hooks/pre-commit; do echo x || exit; done",
	    "new/.git/hooks/pre-commit", 0);
}

/* A shell that reads typed input, and whose terminal hangs up. */
static void
test_shell_hang_up(void **state)
{
	struct process p;

	prepare();
	p = process_start((const char *[]){ talk_program(), "shell", "--root", talk_project,
	    "--mode", "auto", NULL });
	assert_true(dprintf(p.in, "cd '%s'; %s\n", talk_project, PLANTS("")) > 0);
	wait_until_there("new/.git/hooks/pre-commit");
	insist(p.pid, SIGHUP);
	expect_clean();
	process_forget(&p);
}

#define TEST(t)                                                                                    \
	{                                                                                          \
#t, test_##t, talk_set_up, talk_tear_down, NULL                                    \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mcp_sigterm),
		TEST(mcp_sigint),
		TEST(mcp_sighup),
		TEST(mcp_end_of_input),
		TEST(mcp_nobody_reads),
		TEST(mcp_audit),
		TEST(run_signals),
		TEST(run_broken_pipe),
		TEST(shell_hang_up),
	};

	/*
	 * The test may have been started with SIGHUP ignored, and a program that starts with it
	 * ignored keeps ignoring it.
	 */
	signal(SIGHUP, SIG_DFL);
	return cmocka_run_group_tests_name("last_moment", tests, talk_install, talk_uninstall);
}
