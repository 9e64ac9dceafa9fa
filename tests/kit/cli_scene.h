/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the command line with pipes, and checks status, output and disk
 * (tests/integration/cli_test.c).
 */
#ifndef KODA_TESTS_KIT_CLI_SCENE_H
#define KODA_TESTS_KIT_CLI_SCENE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "shared/base/cleanup.h"
#include "tests/kit/process.h"
#include "tests/kit/said.h"

#define ARGS_MAX 24
#define PROMPT   "[y/N] "
/* A program that hangs fails its test instead of the whole suite. */
#define HANG_SECONDS 60

static char prefix[PATH_MAX];  /* the installation */
static char project[PATH_MAX]; /* one test's; also its current directory */
static char outside[PATH_MAX];

/* ---- running it ---- */

enum stdout_kind {
	TO_PIPE = 0,
	TO_TERMINAL,
	TO_NOBODY, /* a pipe whose reader is gone */
	TO_FULL,
};

struct run {
	/* input */
	const char *cwd; /* NULL: the project */
	const char *bin; /* NULL: the installation's */
	const void *input;
	size_t input_len;
	bool no_input;      /* standard input is closed */
	bool terminal;      /* it has a controlling terminal; otherwise it has none */
	const char *ahead;  /* typed before the prompt */
	const char *answer; /* typed at the prompt */
	enum stdout_kind output;
	/* result */
	int status; /* -signal if it was killed */
	struct bytes out, err, tty;
};

static void
run_done(struct run *r)
{
	free(r->out.data);
	free(r->err.data);
	free(r->tty.data);
}

static void
make_pipe(int fds[2])
{
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
}

static void
child_main(const struct run *r, char **argv, int in, int out, int err, const char *pty)
{
	int tty = -1;

	setsid();
	if (pty != NULL && (tty = open(pty, O_RDWR)) < 0)
		_exit(126);
	if (r->output == TO_TERMINAL)
		out = tty;
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(126);
	if (tty > 2)
		close(tty);
	if (r->no_input)
		close(0);
	if (chdir(r->cwd != NULL ? r->cwd : project) < 0)
		_exit(126);
	setenv("TERM", "dumb", 1);
	signal(SIGPIPE, SIG_DFL);
	alarm(HANG_SECONDS);
	execv(argv[0], argv);
	_exit(127);
}

static void
feed(int *fd, const struct run *r, size_t *sent)
{
	ssize_t n = 0;

	if (*sent < r->input_len)
		n = write(*fd, (const char *)r->input + *sent, r->input_len - *sent);
	if (n > 0)
		*sent += (size_t)n;
	if (n < 0 || *sent == r->input_len) {
		close(*fd);
		*fd = -1;
	}
}

static void
type(int master, const char *keys)
{
	assert_int_equal(write(master, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Feeds the program its input and collects its output until it has closed its pipes. */
static void
converse(struct run *r, int in, int out, int err, int master, int keep)
{
	size_t sent = 0;
	bool answered = r->answer == NULL;

	while (out >= 0 || err >= 0 || in >= 0) {
		struct pollfd fds[] = {
			{ .fd = in, .events = POLLOUT },
			{ .fd = out, .events = POLLIN },
			{ .fd = err, .events = POLLIN },
			{ .fd = master, .events = POLLIN },
		};

		assert_true(poll(fds, N_ELEMENTS(fds), HANG_SECONDS * 1000) > 0);
		if (in >= 0 && fds[0].revents != 0)
			feed(&in, r, &sent);
		if (out >= 0 && fds[1].revents != 0)
			drain(&out, &r->out);
		if (err >= 0 && fds[2].revents != 0)
			drain(&err, &r->err);
		if (master >= 0 && fds[3].revents != 0)
			drain(&master, &r->tty);
		if (!answered && r->tty.data != NULL && strstr(r->tty.data, PROMPT) != NULL) {
			type(master, r->answer);
			answered = true;
		}
	}
	/* Output of a dead program stays in its terminal until it is read; then the terminal
	 * hangs up. */
	if (keep >= 0)
		close(keep);
	while (master >= 0)
		drain(&master, &r->tty);
}

static int
open_master(char name[PATH_MAX])
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	assert_int_equal(ptsname_r(master, name, PATH_MAX), 0);
	return master;
}

static void
run_v(struct run *r, char **argv)
{
	int in[2], out[2], err[2], master = -1, keep = -1, status;
	char pty[PATH_MAX];
	pid_t pid;

	make_pipe(in);
	make_pipe(out);
	make_pipe(err);
	if (r->terminal) {
		master = open_master(pty);
		/* Without this, the terminal looks hung up until the program opens it. */
		keep = open(pty, O_RDWR | O_NOCTTY | O_CLOEXEC);
		assert_true(keep >= 0);
		if (r->ahead != NULL)
			type(master, r->ahead);
	}
	if (r->output == TO_FULL) {
		close(out[1]);
		out[1] = open("/dev/full", O_WRONLY | O_CLOEXEC);
		assert_true(out[1] >= 0);
	}
	if (r->output == TO_NOBODY) {
		close(out[0]);
		out[0] = -1;
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child_main(r, argv, in[0], out[1], err[1], r->terminal ? pty : NULL);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	signal(SIGPIPE, SIG_IGN);
	converse(r, in[1], out[0], err[0], master, keep);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	if (r->out.data == NULL)
		append(&r->out, "", 0);
	if (r->err.data == NULL)
		append(&r->err, "", 0);
	if (r->tty.data == NULL)
		append(&r->tty, "", 0);
}

/* Example: run(&r, "fs", "read", "a", NULL) */
static void
run(struct run *r, ...)
{
	char program[PATH_MAX + 32], *argv[ARGS_MAX + 2];
	size_t n = 0;
	va_list ap;

	snprintf(program, sizeof(program), "%s/koda-sandbox", r->bin != NULL ? r->bin : "");
	if (r->bin == NULL)
		snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	argv[n++] = program;
	va_start(ap, r);
	do {
		assert_true(n < N_ELEMENTS(argv));
		argv[n] = va_arg(ap, char *);
	} while (argv[n++] != NULL);
	va_end(ap);
	run_v(r, argv);
}

/* ---- checking the result ---- */

/* Fails with the program's messages if its exit status is another one. */
static void
ended(const struct run *r, int status)
{
	if (r->status != status)
		fail_msg("status %d instead of %d, saying: %s%s", r->status, status, r->err.data,
		    r->tty.data);
}

static json_t *
parse(const struct run *r)
{
	json_error_t e;
	json_t *ret = json_loadb(r->out.data, r->out.len, JSON_REJECT_DUPLICATES, &e);

	if (ret == NULL)
		fail_msg("not one JSON object (%s): %s", e.text, r->out.data);
	assert_true(json_is_object(ret));
	return ret;
}

static void
put_file(const char *name, const void *data, size_t len)
{
	char path[2 * PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", project, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void
put_text(const char *name, const char *text)
{
	put_file(name, text, strlen(text));
}

static void
file_has(const char *name, const void *data, size_t len)
{
	char path[2 * PATH_MAX], *have = malloc(len + 2);
	FILE *f;

	assert_non_null(have);
	snprintf(path, sizeof(path), "%s/%s", project, name);
	f = fopen(path, "r");
	if (f == NULL)
		fail_msg("there is no %s", path);
	assert_int_equal(fread(have, 1, len + 1, f), len);
	assert_memory_equal(have, data, len);
	fclose(f);
	free(have);
}

static void
file_is(const char *name, const char *text)
{
	file_has(name, text, strlen(text));
}

static bool
exists(const char *dir, const char *name)
{
	char path[2 * PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0;
}

static void
no_leftovers(void)
{
	DIR *dir = opendir(project);
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, ".koda-", 6) == 0)
			fail_msg("left behind: %s", entry->d_name);
	}
	closedir(dir);
}

#endif
