/* Servers and children as processes, in the test's own runtime directory: drives
 * tests/kit/mcp_host.c. */
#ifndef KODA_TESTS_SUPPORT_MCP_HOST_H
#define KODA_TESTS_SUPPORT_MCP_HOST_H

#include <poll.h>
#include <signal.h>

#include "tests/kit/proof.h"

#define MCP_HOST    KODA_TEST_BUILD_DIR "/tests/kit/mcp_host"
#define PROGRAM     KODA_TEST_BUILD_DIR "/cli/koda-sandbox"
#define PATIENCE_MS 20000

struct process {
	pid_t pid;
	/* The test's ends of the pipes: it writes to `in` and reads the others. */
	int in, out, err;
};

static char dir[PATH_MAX]; /* the test's; XDG_RUNTIME_DIR is below it */

static proof_unused struct process
start(const char *const *argv)
{
	int in[2], out[2], err[2];
	struct process p;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	p = (struct process){ fork(), in[1], out[0], err[0] };
	assert_true(p.pid >= 0);
	if (p.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(99);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	return p;
}

static proof_unused bool
comes(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* Returns its next line without the newline, or "" at the end. */
static proof_unused const char *
hear(int fd)
{
	static char line[4096];
	size_t n = 0;

	for (;;) {
		ssize_t r;

		if (!comes(fd, PATIENCE_MS))
			fail_msg("it says nothing behind '%.*s'", (int)n, line);
		r = read(fd, line + n, 1);
		if (r <= 0 || line[n] == '\n')
			break;
		assert_true(++n < sizeof(line));
	}
	line[n] = '\0';
	return line;
}

static proof_unused void
say(const struct process *p, const char *line)
{
	assert_int_equal(dprintf(p->in, "%s\n", line), (int)strlen(line) + 1);
}

static proof_unused const char *
ask(const struct process *p, const char *line)
{
	say(p, line);
	return hear(p->out);
}

static proof_unused void
forget(struct process *p)
{
	if (p->in >= 0)
		close(p->in);
	close(p->out);
	close(p->err);
}

/* Returns the exit status as a shell would: 128 + n for a signal. */
static proof_unused int
wait_for(struct process *p)
{
	int status;

	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	forget(p);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Closes its input, and waits for it to end. */
static proof_unused int
finish(struct process *p)
{
	close(p->in);
	p->in = -1;
	return wait_for(p);
}

static proof_unused struct process
start_host(char ret_name[17])
{
	struct process p = start((const char *[]){ MCP_HOST, NULL });
	const char *line = hear(p.out);

	if (strncmp(line, "ready ", 6) != 0)
		fail_msg("the server says '%s'", line);
	if (ret_name != NULL)
		snprintf(ret_name, 17, "%s", line + 6);
	return p;
}

static proof_unused struct process
start_child(const char *token)
{
	return start((const char *[]){ MCP_HOST, "child", token, NULL });
}

static proof_unused int
mcp_set_up(void **state)
{
	proof_mkdtemp(dir);
	signal(SIGPIPE, SIG_IGN);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	return chmod(dir, 0700);
}

static proof_unused int
mcp_tear_down(void **state)
{
	proof_rmtree(dir);
	return 0;
}

#endif
