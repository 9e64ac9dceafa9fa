/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/signals.h"
#include "shared/base/clock.h"

#define GRACE_MS 2000 /* between SIGTERM and SIGKILL, as in the sandbox */

struct variables {
	char **v; /* ends with NULL */
	size_t n;
};

static int
add_variable(void *data, const char *name, const char *value, bool passed)
{
	struct variables *env = data;
	size_t size = strlen(name) + strlen(value) + 2;
	char **v, *text;

	if (!passed)
		return 0;
	text = output_alloc(size);
	snprintf(text, size, "%s=%s", name, value);
	v = realloc(env->v, (env->n + 2) * sizeof(*v));
	if (v == NULL)
		output_no_memory();
	env->v = v;
	env->v[env->n++] = text;
	env->v[env->n] = NULL;
	return 0;
}

static void
variables_done(struct variables *env)
{
	for (size_t i = 0; i < env->n; i++)
		free(env->v[i]);
	free(env->v);
}

static int
fail(const struct cli *cli, int errnum, const char *what)
{
	struct koda_error err = { .code = KODA_INTERNAL, .errnum = errnum };

	snprintf(err.message, sizeof(err.message), "%.400s: %s", what, strerror(errnum));
	output_error(cli, &err, NULL);
	return EXIT_HOST;
}

/*
 * Returns errno after execvpe() failed. EACCES may only mean that a directory of PATH could not be
 * searched: then, as shells say, there is no such command, and this returns ENOENT.
 */
static int
errno_of_exec(const char *name, char *const *env)
{
	const char *path = NULL;
	char candidate[4096];

	if (errno != EACCES || strchr(name, '/') != NULL)
		return errno;
	for (; *env != NULL; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			path = *env + 5;
	}
	while (path != NULL && *path != '\0') {
		size_t len = strcspn(path, ":");

		snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)len, path, name);
		if (access(candidate, F_OK) == 0)
			return EACCES;
		path += len + (path[len] == ':');
	}
	return ENOENT;
}

/* Runs in a forked child: makes system calls only. */
__attribute__((noreturn)) static void
child(const char *const *argv, char *const *env, const char *cwd, const struct plain_limits *limits,
    int signals, int report)
{
	int errnum;

	signals_close(&signals);
	if (chdir(cwd) == 0 && plain_limits_apply(limits) == 0)
		execvpe(argv[0], (char *const *)argv, env);
	errnum = errno_of_exec(argv[0], env);
	if (write(report, &errnum, sizeof(errnum)) < 0)
		_exit(EXIT_HOST);
	_exit(EXIT_NOT_RUN);
}

/* Has the child already received it? It shares our process group, which the terminal signals. */
static bool
is_for_everybody(int signo)
{
	return signo == SIGINT || signo == SIGQUIT || signo == SIGTSTP || signo == SIGWINCH ||
	    signo == SIGCONT;
}

/* Waits until the process has ended. Returns whether it ran out of time. */
static bool
attend(pid_t pid, int pidfd, int signals, unsigned timeout_ms)
{
	long long deadline = timeout_ms > 0 ? (long long)monotonic_ms() + timeout_ms : 0;
	bool late = false;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = pidfd, .events = POLLIN },
			{ .fd = signals, .events = POLLIN },
		};
		long long left = deadline > 0 ? deadline - (long long)monotonic_ms() : -1;
		int signo;

		if (deadline > 0 && left <= 0) {
			kill(pid, late ? SIGKILL : SIGTERM);
			deadline = late ? 0 : monotonic_ms() + GRACE_MS;
			late = true;
			continue;
		}
		poll(fds, 2, (int)left);
		if (fds[0].revents != 0)
			return late;
		while ((signo = signals_next(signals)) != 0) {
			if (signo == SIGTSTP)
				raise(SIGSTOP);
			else if (!is_for_everybody(signo))
				kill(pid, signo);
		}
	}
}

int
plain_run(const struct cli *cli, const char *const *argv, const char *tool, const char *cwd,
    const struct plain_limits *limits)
{
	struct variables env = { 0 };
	int report[2], signals, errnum = 0, status, pidfd;
	bool late;
	pid_t pid;

	if (koda_environment(tool, add_variable, &env) < 0)
		return fail(cli, ENOMEM, "cannot make the environment");
	if (env.v == NULL)
		env.v = calloc(1, sizeof(*env.v));
	if (env.v == NULL)
		output_no_memory();
	signals = signals_open();
	if (signals < 0 || pipe2(report, O_CLOEXEC) < 0) {
		variables_done(&env);
		return fail(cli, errno, "cannot make pipes");
	}
	pid = fork();
	if (pid == 0)
		child(argv, env.v, cwd, limits, signals, report[1]);
	close(report[1]);
	pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	variables_done(&env);
	if (pidfd < 0) {
		errnum = errno;
		close(report[0]);
		return fail(cli, errnum, "cannot start a process");
	}
	/* The pipe closes without a message if the command was executed. */
	if (read(report[0], &errnum, sizeof(errnum)) != (ssize_t)sizeof(errnum))
		errnum = 0;
	close(report[0]);
	late = attend(pid, pidfd, signals, limits->wall_ms);
	close(pidfd);
	waitpid(pid, &status, 0);
	signals_close(&signals);
	if (errnum != 0) {
		struct koda_error err = { .code = KODA_IO, .errnum = errnum };

		snprintf(err.message, sizeof(err.message), "'%.400s': %s", argv[0],
		    strerror(errnum));
		output_error(cli, &err, NULL);
		return errnum == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	}
	if (late) {
		output_note(NULL, "the command was ended because its time was up (wall_time_secs)");
		return EXIT_TIMED_OUT;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
