/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `koda-sandbox run` and `shell` with pipes or a terminal, and checks that nothing of it is left
 * (tests/integration/run_test.c, draft_cli_test.c).
 */
#ifndef KODA_TESTS_KIT_RUN_SCENE_H
#define KODA_TESTS_KIT_RUN_SCENE_H

#include <dirent.h>
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "shared/base/cleanup.h"
#include "tests/kit/process.h"
#include "tests/kit/said.h"
#include "tests/kit/skip.h"

/* Not every program that has this scene needs it. */
#define scene_unused __attribute__((unused))

#define ARGS_MAX  24
#define STEPS_MAX 8
/* A program that hangs fails its test instead of the whole suite. */
#define HANG_SECONDS 60

static char prefix[PATH_MAX];  /* the installation */
static char project[PATH_MAX]; /* of one test; also its current directory */
static char home[PATH_MAX];

/* ---- running it ---- */

enum end {
	END_PIPE = 0,
	END_TERMINAL,
	END_FILE, /* project/out, project/err; for standard input project/in */
	END_NULL,
	END_SOCKET,
	END_CLOSED,
	END_NOBODY,    /* a pipe whose reader is gone */
	END_DIRECTORY, /* standard input */
	END_OUTPUT,    /* standard error: what standard output is */
};

/* Once `after` has appeared in the output, on any channel, do the rest. */
struct step {
	const char *after; /* NULL: at once */
	unsigned times;    /* wait for the n-th occurrence; 0: the first */
	const char *type;  /* on the terminal */
	int signo;
	unsigned rows, columns; /* new size of the terminal */
	bool hang_up;           /* close the terminal */
	bool stop_and_go;       /* wait until it has stopped, check the terminal, continue it */
};

struct run {
	/* input */
	enum end in, out, err;
	const void *input; /* for a pipe */
	size_t input_len;
	const char *cwd;  /* NULL: the project */
	const char *bin;  /* NULL: that of the installation */
	bool controlling; /* the terminal is its controlling terminal */
	bool keeps_input; /* leave unread input in the pipe, see input_left */
	struct step steps[STEPS_MAX];
	/* results */
	int status;           /* -signal when it was killed */
	struct bytes said[3]; /* by descriptor; the terminal is 0 */
	size_t input_left;
	ino_t out_inode;
	struct termios before, after;
};

#define OUT(r) (&(r)->said[1])
#define ERR(r) (&(r)->said[2])
#define TTY(r) (&(r)->said[0])

static void
run_done(struct run *r)
{
	for (size_t i = 0; i < 3; i++)
		free(r->said[i].data);
}

static int
open_in_project(const char *name, int flags)
{
	char path[2 * PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", project, name);
	fd = open(path, flags | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	return fd;
}

/* Returns the child's descriptor for `fd`. *ret_ours: our end, or -1. */
static int
open_end(const struct run *r, enum end end, int fd, int slave, int *ret_ours)
{
	int pair[2];

	*ret_ours = -1;
	switch (end) {
	case END_PIPE:
	case END_NOBODY:
		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		*ret_ours = pair[fd == 0];
		if (end == END_NOBODY) {
			close(pair[0]);
			*ret_ours = -1;
		}
		return pair[fd != 0];
	case END_TERMINAL:
		return fcntl(slave, F_DUPFD_CLOEXEC, 3);
	case END_FILE:
		return fd == 0
		    ? open_in_project("in", O_RDONLY)
		    : open_in_project(fd == 1 ? "out" : "err", O_WRONLY | O_CREAT | O_TRUNC);
	case END_NULL:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case END_SOCKET:
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		*ret_ours = pair[0];
		return pair[1];
	case END_DIRECTORY:
		return open_in_project(".", O_RDONLY | O_DIRECTORY);
	case END_CLOSED:
	case END_OUTPUT:
		break;
	}
	return -1;
}

static void
child_main(const struct run *r, char **argv, const int theirs[3], int slave)
{
	setsid();
	if (r->controlling && ioctl(slave, TIOCSCTTY, 0) < 0)
		_exit(123);
	for (int i = 0; i < 3; i++) {
		if (theirs[i] >= 0 && dup2(theirs[i], i) < 0)
			_exit(123);
	}
	if (r->err == END_OUTPUT && dup2(1, 2) < 0)
		_exit(123);
	if (r->in == END_CLOSED)
		close(0);
	if (r->out == END_CLOSED)
		close(1);
	if (r->err == END_CLOSED)
		close(2);
	if (chdir(r->cwd != NULL ? r->cwd : project) < 0)
		_exit(123);
	setenv("TERM", "dumb", 1);
	signal(SIGPIPE, SIG_DFL);
	execv(argv[0], argv);
	_exit(123);
}

static unsigned
times_said(const struct run *r, const char *what)
{
	unsigned n = 0;

	for (size_t i = 0; i < 3; i++) {
		for (const char *at = r->said[i].data;
		     at != NULL && (at = strstr(at, what)) != NULL; at++)
			n++;
	}
	return n;
}

static bool
is_time(const struct run *r, const struct step *step)
{
	return step->after == NULL ||
	    times_said(r, step->after) >= (step->times > 0 ? step->times : 1);
}

static void
look_at_stopped(pid_t pid, int slave, const struct run *r)
{
	struct termios now;
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(tcgetattr(slave, &now), 0);
	assert_int_equal(now.c_lflag, r->before.c_lflag);
	assert_int_equal(kill(pid, SIGCONT), 0);
}

static void
take_step(struct run *r, const struct step *step, pid_t pid, int *master, int *slave)
{
	if (step->type != NULL)
		assert_int_equal(write(*master, step->type, strlen(step->type)),
		    (ssize_t)strlen(step->type));
	if (step->rows > 0) {
		const struct winsize size = { .ws_row = (unsigned short)step->rows,
			.ws_col = (unsigned short)step->columns };

		assert_int_equal(ioctl(*master, TIOCSWINSZ, &size), 0);
	}
	if (step->signo != 0)
		assert_int_equal(kill(pid, step->signo), 0);
	if (step->stop_and_go)
		look_at_stopped(pid, *slave, r);
	if (step->hang_up) {
		close(*slave);
		close(*master);
		*slave = *master = -1;
	}
}

/* Runs the conversation until the process has ended and all its output is read. */
static void
converse(struct run *r, pid_t pid, int pidfd, int in, int out, int err, int *master, int *slave)
{
	size_t sent = 0, step = 0;
	bool running = true;

	if (in >= 0)
		assert_int_equal(fcntl(in, F_SETFL, O_NONBLOCK), 0);
	while (running || out >= 0 || err >= 0) {
		struct pollfd fds[] = {
			{ .fd = in, .events = POLLOUT },
			{ .fd = out, .events = POLLIN },
			{ .fd = err, .events = POLLIN },
			{ .fd = *master, .events = POLLIN },
			{ .fd = running ? pidfd : -1, .events = POLLIN },
		};

		while (step < STEPS_MAX && running &&
		    (r->steps[step].type != NULL || r->steps[step].signo != 0 ||
			r->steps[step].rows > 0 || r->steps[step].hang_up ||
			r->steps[step].stop_and_go) &&
		    is_time(r, &r->steps[step]))
			take_step(r, &r->steps[step++], pid, master, slave);
		fds[3].fd = *master;
		if (poll(fds, N_ELEMENTS(fds), HANG_SECONDS * 1000) <= 0) {
			kill(pid, SIGKILL);
			fail_msg("it hangs, having said: %s%s%s", r->said[0].data, r->said[1].data,
			    r->said[2].data);
		}
		if (in >= 0 && fds[0].revents != 0) {
			ssize_t n = 0;

			if (sent < r->input_len)
				n = write(in, (const char *)r->input + sent, r->input_len - sent);
			if (n > 0)
				sent += (size_t)n;
			if ((n < 0 && errno != EAGAIN) || sent == r->input_len) {
				close(in);
				in = -1;
			}
		}
		if (out >= 0 && fds[1].revents != 0)
			drain(&out, OUT(r));
		if (err >= 0 && fds[2].revents != 0)
			drain(&err, ERR(r));
		if (*master >= 0 && fds[3].revents != 0)
			drain(master, TTY(r));
		if (fds[4].revents != 0)
			running = false;
	}
	if (in >= 0)
		close(in);
	if (step < STEPS_MAX && r->steps[step].after != NULL)
		fail_msg("never said '%s', but: %s%s%s", r->steps[step].after, r->said[0].data,
		    r->said[1].data, r->said[2].data);
}

/* Reads the last output, and how the terminal was left. */
static void
finish_terminal(struct run *r, int master, int slave)
{
	if (slave >= 0) {
		assert_int_equal(tcgetattr(slave, &r->after), 0);
		close(slave);
	} else {
		r->after = r->before;
	}
	while (master >= 0)
		drain(&master, TTY(r));
}

static void
run_v(struct run *r, char **argv)
{
	int theirs[3], ours[3], master = -1, slave = -1, status, pidfd, input = -1;
	const struct winsize size = { .ws_row = 33, .ws_col = 101 };
	struct stat st;
	pid_t pid;

	if (r->in == END_TERMINAL || r->out == END_TERMINAL || r->err == END_TERMINAL ||
	    r->controlling) {
		master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
		assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
		assert_true(slave >= 0);
		assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
		assert_int_equal(tcgetattr(slave, &r->before), 0);
	}
	theirs[0] = open_end(r, r->in, 0, slave, &ours[0]);
	theirs[1] = open_end(r, r->out, 1, slave, &ours[1]);
	theirs[2] = open_end(r, r->err, 2, slave, &ours[2]);
	if (theirs[1] >= 0 && fstat(theirs[1], &st) == 0)
		r->out_inode = st.st_ino;
	if (r->keeps_input)
		input = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child_main(r, argv, theirs, slave);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	assert_true(pidfd >= 0);
	for (int i = 0; i < 3; i++) {
		if (theirs[i] >= 0)
			close(theirs[i]);
	}
	converse(r, pid, pidfd, ours[0], ours[1], ours[2], &master, &slave);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(pidfd);
	r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	finish_terminal(r, master, slave);
	if (input >= 0) {
		int n = 0;

		assert_int_equal(ioctl(input, FIONREAD, &n), 0);
		r->input_left = (size_t)n;
		close(input);
	}
	for (size_t i = 0; i < 3; i++) {
		if (r->said[i].data == NULL)
			append(&r->said[i], "", 0);
	}
}

/* For example: go(&r, "run", "--", "true", NULL) */
__attribute__((unused)) static void
go(struct run *r, ...)
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

/* Runs a shell command line in auto mode. */
#define GO(r, text) go(r, "run", "--mode", "auto", "-c", text, NULL)

/* ---- checking the result ---- */

/* Expects this status; on failure shows what was printed. */
static void
ended(const struct run *r, int status)
{
	if (r->status != status)
		fail_msg("status %d instead of %d, saying: %s%s%s", r->status, status,
		    r->said[1].data, r->said[2].data, r->said[0].data);
	assert_int_equal(r->after.c_lflag, r->before.c_lflag);
	assert_int_equal(r->after.c_iflag, r->before.c_iflag);
	assert_int_equal(r->after.c_oflag, r->before.c_oflag);
}

static scene_unused json_t *
parse(const struct run *r)
{
	json_error_t e;
	json_t *ret =
	    json_loadb(OUT(r)->data, OUT(r)->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);

	if (ret == NULL)
		fail_msg("not one JSON object (%s): %s", e.text, OUT(r)->data);
	assert_true(json_is_object(ret));
	return ret;
}

static scene_unused const char *
text_at(json_t *o, const char *outer, const char *inner)
{
	json_t *v = json_object_get(o, outer);

	return json_string_value(inner != NULL ? json_object_get(v, inner) : v);
}

static scene_unused json_int_t
number_at(json_t *o, const char *outer, const char *inner)
{
	json_t *v = json_object_get(o, outer);

	v = inner != NULL ? json_object_get(v, inner) : v;
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static scene_unused void
put_text(const char *name, const char *text)
{
	int fd = open_in_project(name, O_WRONLY | O_CREAT | O_TRUNC);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static scene_unused void
file_is(const char *name, const char *text)
{
	char have[4096];
	int fd = open_in_project(name, O_RDONLY);
	ssize_t n = read(fd, have, sizeof(have) - 1);

	assert_true(n >= 0);
	have[n] = '\0';
	assert_string_equal(have, text);
	close(fd);
}

/* ---- the scene: an installation, and a project for each case ---- */

static char *mounts_before;

static char *
read_all(const char *path)
{
	struct bytes b = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	append(&b, "", 0);
	while (fd >= 0)
		drain(&fd, &b);
	return b.data;
}

static int
make_installation(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];

	/* Orphans are reparented to us, and waited for. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	snprintf(name, sizeof(name), "%s/koda-run.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(name) == NULL || realpath(name, prefix) == NULL || chmod(prefix, 0755) < 0)
		return -1;
	snprintf(home, sizeof(home), "%.*s/home", PATH_MAX - 32, prefix);
	process_shell("mkdir -p \"$1/bin\" \"$1/libexec/koda-sandbox\" \"$1/home\" && "
		      "cp \"$2/cli/koda-sandbox\" \"$1/bin\" && "
		      "cp \"$2/worker/koda-fs-worker\" \"$2/proxy/koda-egress-proxy\" "
		      "\"$2/connect/koda-egress-connect\" \"$2/launch/koda-sandbox-launch\" \"$3\" "
		      "\"$1/libexec/koda-sandbox\"",
	    prefix, KODA_TEST_BUILD_DIR, KODA_TEST_STAGE2);
	setenv("HOME", home, 1);
	unsetenv("XDG_STATE_HOME");
	mounts_before = read_all("/proc/self/mountinfo");
	return 0;
}

static int
remove_installation(void **state)
{
	free(mounts_before);
	process_shell("rm -rf \"$1\"", prefix, NULL, NULL);
	return 0;
}

static int
make_project(void **state)
{
	snprintf(project, sizeof(project), "%.*s/scene/project", PATH_MAX - 32, prefix);
	process_shell("mkdir -p \"$1\"; echo export A=1 >\"$2/.bashrc\"", project, home, NULL);
	return 0;
}

static void
no_temporary_files(const char *where)
{
	DIR *dir = opendir(where);
	struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir)) != NULL) {
		if (strncmp(e->d_name, ".koda-", 6) == 0 ||
		    strncmp(e->d_name, "koda-doctor", 11) == 0)
			fail_msg("left behind: %s/%s", where, e->d_name);
	}
	closedir(dir);
}

/* Checks that nothing of the case is left. A remaining process hangs the wait until the alarm. */
static int
remove_project(void **state)
{
	char *mounts;
	int status;

	alarm(HANG_SECONDS);
	while (waitpid(-1, &status, 0) > 0 || errno == EINTR)
		;
	alarm(0);
	mounts = read_all("/proc/self/mountinfo");
	assert_string_equal(mounts, mounts_before);
	free(mounts);
	no_temporary_files(project);
	no_temporary_files("/tmp");
	process_shell("rm -rf \"$1/scene\" \"$2/.local\"", prefix, home, NULL);
	return 0;
}

#endif
