#include "shared/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/cleanup.h"

#define HELPER_FD 3

static int
prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int fd)
{
	sigset_t none;
	int r;

	sigemptyset(&none);
	if ((r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0)) != 0 ||
	    (r = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0)) != 0 ||
	    (r = posix_spawn_file_actions_adddup2(actions, 1, 2)) != 0 ||
	    (r = posix_spawn_file_actions_adddup2(actions, fd, HELPER_FD)) != 0 ||
	    (r = posix_spawn_file_actions_addclosefrom_np(actions, HELPER_FD + 1)) != 0 ||
	    (r = posix_spawnattr_setsigmask(attr, &none)) != 0)
		return r;
	/* Handlers go with the exec; what the embedder ignores may stay ignored. */
	return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
}

int
spawn_helper(const char *path, int fd, struct child *ret, struct koda_error *err)
{
	const char *name = strrchr(path, '/');
	char *argv[] = { (char *)(name == NULL ? path : name + 1), NULL };
	char *envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	cleanup_close int high = -1;
	pid_t pid;
	int r, pidfd;

	/* dup2 onto itself would keep CLOEXEC, and 0 to 2 are replaced first. */
	high = fcntl(fd, F_DUPFD_CLOEXEC, HELPER_FD + 1);
	if (high < 0)
		return err_set(err, KODA_INTERNAL, errno, "duplicate a descriptor");
	if ((r = posix_spawn_file_actions_init(&actions)) != 0)
		return err_set(err, KODA_INTERNAL, r, "start '%s'", path);
	if ((r = posix_spawnattr_init(&attr)) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return err_set(err, KODA_INTERNAL, r, "start '%s'", path);
	}
	r = prepare(&actions, &attr, high);
	if (r == 0)
		r = posix_spawn(&pid, path, &actions, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return err_set(err, KODA_UNSUPPORTED, r, "start '%s'", path);

	/* Between these two lines the pid can only be recycled if the child has died and an embedder's
	 * handler has reaped it; the child, which waits for its first frame, does neither. */
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
