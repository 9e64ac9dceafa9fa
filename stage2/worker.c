#include "stage2/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/cleanup.h"
#include "shared/lockdown.h"

#define SOCKET_FD  3 /* where the worker expects it */
#define PROGRAM_FD 4
#define WHY_FD     5

static int
place(int socket_fd, int program_fd, int why_fd)
{
	/* Above all the places first, so that none of them is taken by another one. */
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

static _Noreturn void
become_worker(int program_fd, int socket_fd, int why_fd)
{
	char *argv[] = { (char *)(uintptr_t) "koda-fs-worker", NULL }, *envp[] = { NULL };
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;
	int why;

	sigemptyset(&none);
	if (place(socket_fd, program_fd, why_fd) == 0 && setsid() >= 0 && chdir("/") == 0 &&
	    lockdown_capabilities(NULL) == 0 && sigaction(SIGPIPE, &dfl, NULL) == 0 &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		syscall(SYS_execveat, PROGRAM_FD, "", argv, envp, AT_EMPTY_PATH);
	why = errno;
	if (write(WHY_FD, &why, sizeof(why)) < 0)
		_exit(2);
	_exit(1);
}

int
worker_start(int program_fd, int socket_fd, pid_t *ret_pid, int *ret_pidfd)
{
	int pipe_fds[2], why = 0, pidfd;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		become_worker(program_fd, socket_fd, pipe_fds[1]);
	close(pipe_fds[1]);
	/* The end of it is execve. */
	do {
		n = pid < 0 ? 0 : read(pipe_fds[0], &why, sizeof(why));
	} while (n < 0 && errno == EINTR);
	close(pipe_fds[0]);
	if (pid < 0)
		return -1;
	pidfd = n == 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (pidfd < 0) {
		int saved = n == 0 ? errno : n == (ssize_t)sizeof(why) ? why : EIO;

		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		errno = saved;
		return -1;
	}
	*ret_pid = pid;
	*ret_pidfd = pidfd;
	return 0;
}
