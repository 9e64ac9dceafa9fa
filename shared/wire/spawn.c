/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/wire/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

#define FIRST_FD 3

static int
prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, const int *fds, size_t n_fds,
    int stderr_fd)
{
	sigset_t none;
	int r;

	sigemptyset(&none);
	if ((r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0)) != 0 ||
	    (r = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0)) != 0 ||
	    (r = posix_spawn_file_actions_adddup2(actions, stderr_fd >= 0 ? stderr_fd : 1, 2)) != 0)
		return r;
	for (size_t i = 0; i < n_fds; i++) {
		if ((r = posix_spawn_file_actions_adddup2(actions, fds[i], FIRST_FD + (int)i)) != 0)
			return r;
	}
	if ((r = posix_spawn_file_actions_addclosefrom_np(actions, FIRST_FD + (int)n_fds)) != 0 ||
	    (r = posix_spawnattr_setsigmask(attr, &none)) != 0)
		return r;
	/* Exec resets handlers. A signal that the embedder ignores may stay ignored. */
	return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
}

static int
start(const char *path, char *const argv[], const int *fds, size_t n_fds, int stderr_fd,
    struct child *ret, struct koda_error *err)
{
	char *envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	pid_t pid;
	int r, pidfd;

	if ((r = posix_spawn_file_actions_init(&actions)) != 0)
		return err_set(err, KODA_INTERNAL, r, "start '%s'", path);
	if ((r = posix_spawnattr_init(&attr)) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return err_set(err, KODA_INTERNAL, r, "start '%s'", path);
	}
	r = prepare(&actions, &attr, fds, n_fds, stderr_fd);
	if (r == 0)
		r = posix_spawn(&pid, path, &actions, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return err_set(err, KODA_UNSUPPORTED, r, "start '%s'", path);

	/*
	 * Before this call the pid can only be recycled if the child has died and a handler of the
	 * embedder has reaped it. The child waits for its first frame, so it does not die.
	 */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		r = errno;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return err_set(err, KODA_UNSUPPORTED, r, "pidfd_open");
	}
	*ret = (struct child){ .pid = pid, .pidfd = pidfd };
	return 0;
}

int
spawn_program(const char *path, char *const argv[], const int *fds, size_t n_fds, int stderr_fd,
    struct child *ret, struct koda_error *err)
{
	cleanup_free int *high = NULL;
	cleanup_close int high_err = -1;
	size_t n = 0;
	int r = -1;

	if (n_fds == 0 || n_fds > SPAWN_FDS_MAX)
		return err_set(err, KODA_INTERNAL, 0, "%zu descriptors for '%s'", n_fds, path);
	if ((high = calloc(n_fds, sizeof(*high))) == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "start '%s'", path);
	/*
	 * dup2() of a descriptor onto itself would keep CLOEXEC, and 0 to 2 and the target
	 * descriptors are replaced before they are used: so work on copies above them.
	 */
	if (stderr_fd >= 0)
		high_err = fcntl(stderr_fd, F_DUPFD_CLOEXEC, FIRST_FD + (int)n_fds);
	while ((stderr_fd < 0 || high_err >= 0) && n < n_fds &&
	    (high[n] = fcntl(fds[n], F_DUPFD_CLOEXEC, FIRST_FD + (int)n_fds)) >= 0)
		n++;
	if (n == n_fds)
		r = start(path, argv, high, n_fds, high_err, ret, err);
	else
		err_set(err, KODA_INTERNAL, errno, "duplicate a descriptor");
	while (n > 0)
		close(high[--n]);
	return r;
}

int
spawn_helper(const char *path, int fd, struct child *ret, struct koda_error *err)
{
	const char *name = strrchr(path, '/');
	char *argv[] = { (char *)(name == NULL ? path : name + 1), NULL };

	return spawn_program(path, argv, &fd, 1, -1, ret, err);
}

void
child_kill(const struct child *c)
{
	if (c->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
}

bool
child_gone(struct child *c, int timeout_ms)
{
	struct pollfd pfd = { .fd = c->pidfd, .events = POLLIN };
	siginfo_t info = { 0 };
	int r;

	if (c->pidfd < 0)
		return true;
	do {
		r = poll(&pfd, 1, timeout_ms);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return false;
	if (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
		c->code = info.si_code;
		c->status = info.si_status;
	}
	close(c->pidfd);
	c->pidfd = -1;
	return true;
}

const char *
child_end(const struct child *c, char *buf, size_t size)
{
	const char *name;

	switch (c->code) {
	case CLD_EXITED:
		snprintf(buf, size, "exited with %d", c->status);
		break;
	case CLD_KILLED:
	case CLD_DUMPED:
		name = sigabbrev_np(c->status);
		if (name != NULL)
			snprintf(buf, size, "killed by SIG%s", name);
		else
			snprintf(buf, size, "killed by signal %d", c->status);
		break;
	default:
		return "gone";
	}
	return buf;
}
