/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/connect_call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

/*
 * The longest that one connect() can block the loop. It blocks only if another thread removes
 * O_NONBLOCK during the call.
 */
#define CONNECT_SLICE_MS 5

static void
on_alarm(int signo)
{
	/* Only to interrupt connect(). */
}

int
connect_call_init(void)
{
	/* Without SA_RESTART, so that it interrupts connect(). */
	struct sigaction action = { .sa_handler = on_alarm };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	if (sigaction(SIGALRM, &action, NULL) < 0)
		return -1;
	return sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int
connect_call(int fd, int type, int flags, const struct sockaddr_storage *addr, socklen_t len)
{
	static const struct itimerval
	    never = { 0 },
	    soon = {
		    /* Repeats, in case the first one came before the call. */
		    .it_interval.tv_usec = CONNECT_SLICE_MS * 1000,
		    .it_value.tv_usec = CONNECT_SLICE_MS * 1000,
	    };
	bool blocking = (flags & O_NONBLOCK) == 0;
	int r;

	if (type == SOCK_DGRAM || type == SOCK_RAW)
		return connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
	if (blocking && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	setitimer(ITIMER_REAL, &soon, NULL);
	r = connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
	/*
	 * Over loopback the connection is established now; the second call makes the socket's state
	 * reflect it.
	 */
	if (blocking && (r == -EINPROGRESS || r == -EINTR))
		r = connect(fd, (const struct sockaddr *)addr, len) < 0 ? -errno : 0;
	setitimer(ITIMER_REAL, &never, NULL);
	if (blocking)
		fcntl(fd, F_SETFL, flags);
	return r;
}

bool
connect_call_has_to_wait(int domain, int r)
{
	return domain == AF_UNIX ? r == -EAGAIN || r == -EINTR
				 : r == -EINPROGRESS || r == -EALREADY || r == -EINTR;
}
