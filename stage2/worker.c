/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"
#include "stage2/child.h"

#define SOCKET_FD  3 /* where the worker expects it */
#define PROGRAM_FD 4
#define WHY_FD     5

static int
place_descriptors(int socket_fd, int program_fd, int why_fd)
{
	/* First move them above all target numbers, so that no descriptor overwrites another. */
	int s = fcntl(socket_fd, F_DUPFD_CLOEXEC, WHY_FD + 1);
	int p = fcntl(program_fd, F_DUPFD_CLOEXEC, WHY_FD + 1);
	int w = fcntl(why_fd, F_DUPFD_CLOEXEC, WHY_FD + 1);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (s < 0 || p < 0 || w < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(null, 2) < 0 || dup2(s, SOCKET_FD) < 0 || dup3(p, PROGRAM_FD, O_CLOEXEC) < 0 ||
	    dup3(w, WHY_FD, O_CLOEXEC) < 0)
		return -1;
	return (int)syscall(SYS_close_range, WHY_FD + 1, ~0u, 0);
}

/* Returns the name of the program's file, for lists of processes: a worker or a search. Points
 * into buf, or to a constant. */
static const char *
program_name(char *buf, size_t size)
{
	char link[32];
	const char *slash;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", PROGRAM_FD);
	n = readlink(link, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	slash = strrchr(buf, '/');
	return slash != NULL ? slash + 1 : "koda-fs-worker";
}

static _Noreturn void
become_worker(int program_fd, int socket_fd, int why_fd)
{
	char name[PATH_MAX], *argv[] = { NULL, NULL }, *envp[] = { NULL };
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;
	int why;

	sigemptyset(&none);
	if (place_descriptors(socket_fd, program_fd, why_fd) == 0 && setsid() >= 0 &&
	    chdir("/") == 0 && sigaction(SIGPIPE, &dfl, NULL) == 0 &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0) {
		argv[0] = (char *)(uintptr_t)program_name(name, sizeof(name));
		syscall(SYS_execveat, PROGRAM_FD, "", argv, envp, AT_EMPTY_PATH);
	}
	why = errno;
	if (write(WHY_FD, &why, sizeof(why)) < 0)
		_exit(2);
	_exit(1);
}

/* ---- the spawner ---- */

#define ORDER_FD 3 /* an order's descriptors arrive below it */

struct started {
	pid_t pid; /* 0: none was forked */
	int errnum;
};

/* Start a worker as a child of stage2, not of the spawner. Waits until it has called execve, or
 * failed to. */
static struct started
start_worker(int program_fd, int socket_fd)
{
	struct started ret = { 0 };
	int why[2];
	ssize_t n;

	if (pipe2(why, O_CLOEXEC) < 0) {
		ret.errnum = errno;
		return ret;
	}
	/* fork() with CLONE_PARENT. What the C library does in addition is for programs with
	 * threads. */
	ret.pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
	if (ret.pid == 0)
		become_worker(program_fd, socket_fd, why[1]);
	if (ret.pid < 0) {
		ret.errnum = errno;
		ret.pid = 0;
	}
	close(why[1]);
	/* execve closes the other end of the pipe. */
	do {
		n = ret.pid == 0 ? 0 : read(why[0], &ret.errnum, sizeof(ret.errnum));
	} while (n < 0 && errno == EINTR);
	if (n != 0 && n != (ssize_t)sizeof(ret.errnum))
		ret.errnum = EIO;
	close(why[0]);
	return ret;
}

static _Noreturn void
be_spawner(int sock)
{
	struct started answer = { 0 };
	sigset_t all;
	int fds[2];
	char order;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "koda-spawner");
	if (dup3(sock, ORDER_FD, O_CLOEXEC) < 0 && sock != ORDER_FD)
		_exit(1);
	if (syscall(SYS_close_range, 0, ORDER_FD - 1, 0) < 0 ||
	    syscall(SYS_close_range, ORDER_FD + 1, ~0u, 0) < 0)
		_exit(1);
	child_drop_heap();
	if (lockdown_guard(NULL) < 0)
		answer.errnum = errno;
	if (send(ORDER_FD, &answer, sizeof(answer), MSG_NOSIGNAL) < 0 || answer.errnum != 0)
		_exit(1);
	while (child_receive(ORDER_FD, &order, sizeof(order), fds, 2, 0) == 0) {
		answer = start_worker(fds[0], fds[1]);
		close(fds[0]);
		close(fds[1]);
		if (send(ORDER_FD, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* ---- stage2 ---- */

/* A command can stop the spawner below Landlock's ABI 6. Then the slot ends instead of waiting
 * for longer than this. */
#define ANSWER_MS 5000

static int
receive_answer(int sock, struct started *ret)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	int r;

	do {
		r = poll(&pfd, 1, ANSWER_MS);
	} while (r < 0 && errno == EINTR);
	if (r == 1 && recv(sock, ret, sizeof(*ret), MSG_DONTWAIT) == (ssize_t)sizeof(*ret))
		return 0;
	errno = EPIPE;
	return -1;
}

struct spawner *
spawner_new(struct koda_error *err)
{
	cleanup_free struct spawner *sp = calloc(1, sizeof(*sp));
	int pair[2];

	if (sp == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_set(err, KODA_INTERNAL, errno, "spawner");
		return NULL;
	}
	sp->fd = pair[0];
	sp->pid = fork();
	if (sp->pid == 0)
		be_spawner(pair[1]);
	close(pair[1]);
	if (sp->pid < 0) {
		err_set(err, KODA_INTERNAL, errno, "fork the spawner");
		close(sp->fd);
		return NULL;
	}
	return take_ptr(&sp);
}

int
spawner_ready(const struct spawner *sp, struct koda_error *err)
{
	struct started answer;

	if (receive_answer(sp->fd, &answer) < 0)
		return err_set(err, KODA_INTERNAL, 0, "the spawner died");
	if (answer.errnum != 0)
		return err_set(err, KODA_UNSUPPORTED, answer.errnum, "confine the spawner");
	return 0;
}

int
worker_start(const struct spawner *sp, int program_fd, int socket_fd, pid_t *ret_pid,
    int *ret_pidfd)
{
	const int fds[] = { program_fd, socket_fd };
	struct started answer;
	int pidfd;

	if (child_send(sp->fd, "", 1, fds, N_ELEMENTS(fds), MSG_DONTWAIT) < 0 ||
	    receive_answer(sp->fd, &answer) < 0) {
		errno = EPIPE;
		return -1;
	}
	if (answer.pid <= 0) {
		errno = answer.errnum;
		return -1;
	}
	/* It is a child of this process, which has not waited for it, so the number cannot
	 * belong to another process. */
	pidfd = answer.errnum == 0 ? (int)syscall(SYS_pidfd_open, answer.pid, 0) : -1;
	if (pidfd < 0) {
		int saved = answer.errnum == 0 ? errno : answer.errnum;

		kill(answer.pid, SIGKILL);
		waitpid(answer.pid, NULL, 0);
		errno = saved;
		return -1;
	}
	*ret_pid = answer.pid;
	*ret_pidfd = pidfd;
	return 0;
}
