/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct process
start_with(const char *const *argv, bool loud)
{
	int in[2], out[2], err[2] = { -1, -1 };
	struct process p;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	if (!loud)
		assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	p = (struct process){ fork(), in[1], out[0], err[0] };
	assert_true(p.pid >= 0);
	if (p.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (!loud)
			dup2(err[1], 2);
		signal(SIGPIPE, SIG_DFL);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(99);
	}
	close(in[0]);
	close(out[1]);
	if (!loud)
		close(err[1]);
	return p;
}

struct process
process_start(const char *const *argv)
{
	return start_with(argv, false);
}

struct process
process_start_loud(const char *const *argv)
{
	return start_with(argv, true);
}

bool
process_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

const char *
process_line(int fd)
{
	static char line[4096];
	size_t n = 0;

	for (;;) {
		ssize_t r;

		if (!process_readable(fd, PATIENCE_MS))
			fail_msg("it says nothing after '%.*s'", (int)n, line);
		r = read(fd, line + n, 1);
		if (r <= 0 || line[n] == '\n')
			break;
		assert_true(++n < sizeof(line));
	}
	line[n] = '\0';
	return line;
}

void
process_say(const struct process *p, const char *line)
{
	assert_int_equal(dprintf(p->in, "%s\n", line), (int)strlen(line) + 1);
}

const char *
process_ask(const struct process *p, const char *line)
{
	process_say(p, line);
	return process_line(p->out);
}

void
process_close_input(struct process *p)
{
	if (p->in >= 0)
		close(p->in);
	p->in = -1;
}

void
process_forget(struct process *p)
{
	process_close_input(p);
	close(p->out);
	if (p->err >= 0)
		close(p->err);
}

int
process_wait(struct process *p)
{
	const uint64_t until = clock_ms() + PATIENCE_MS;
	int status;
	pid_t r;

	while ((r = waitpid(p->pid, &status, WNOHANG)) == 0) {
		if (clock_ms() > until)
			fail_msg("the process does not end");
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	assert_int_equal(r, p->pid);
	process_forget(p);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
process_finish(struct process *p)
{
	process_close_input(p);
	return process_wait(p);
}

void
process_wait_all(void)
{
	alarm(PATIENCE_MS / 1000);
	while (wait(NULL) > 0 || errno == EINTR)
		continue;
	alarm(0);
	assert_int_equal(errno, ECHILD);
}

void
process_shell(const char *script, const char *one, const char *two, const char *three)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-euc", script, "sh", one, two, three, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

uint64_t
clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

long
resident_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	}
	fclose(f);
	return kib;
}
