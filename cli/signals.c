/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static sigset_t before, blocked;

int
signals_open(void)
{
	static const int ours[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH,
		SIGUSR1, SIGUSR2 };
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		struct sigaction action;

		/* A blocked signal stays pending even if it is ignored: do not read these. */
		if (sigaction(ours[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, ours[i]);
	}
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -1;
	blocked = set;
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	return fd;
}

void
signals_suspend(int fd)
{
	if (fd >= 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
}

void
signals_resume(int fd)
{
	if (fd >= 0)
		sigprocmask(SIG_BLOCK, &blocked, NULL);
}

int
signals_next(int fd)
{
	struct signalfd_siginfo info;
	ssize_t n;

	do {
		n = read(fd, &info, sizeof(info));
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

void
signals_close(int *fd)
{
	const struct timespec now = { 0 };
	sigset_t broken;

	if (*fd < 0)
		return;
	/* A SIGPIPE that a write of ours caused has been handled. */
	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	while (sigtimedwait(&broken, NULL, &now) > 0)
		;
	close(*fd);
	*fd = -1;
	sigprocmask(SIG_SETMASK, &before, NULL);
}
