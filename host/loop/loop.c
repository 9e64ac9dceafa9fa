/* SPDX-License-Identifier: Apache-2.0 */
#include "host/loop/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shared/base/clock.h"

#define EVENTS_AT_ONCE 32

void
loop_set_time(struct loop *loop, uint64_t at)
{
	struct itimerspec its = { 0 };

	/* Each call moves its slot's deadline: a timer that fires too early is cheaper than setting
	 * the timer for each call. */
	if (at == loop->timer_at || (at > loop->timer_at && at != UINT64_MAX))
		return;
	loop->timer_at = at;
	if (at != UINT64_MAX) {
		its.it_value.tv_sec = (time_t)(at / NS_PER_S);
		its.it_value.tv_nsec = (long)(at % NS_PER_S);
		if (at == 0)
			its.it_value.tv_nsec = 1; /* zero would disarm it */
	}
	timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
}

void
loop_wake_at(struct loop *loop, uint64_t at)
{
	if (at < loop->timer_at)
		loop_set_time(loop, at);
}

void
loop_wake(struct loop *loop)
{
	if (!loop->dispatching)
		loop_set_time(loop, 0);
}

void
loop_watch(struct loop *loop, struct source *source, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = source };

	if (source->fd == fd && source->events == events)
		return;
	if (source->fd >= 0 && source->fd != fd)
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	if (fd >= 0 && (source->fd != fd || epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &ev) < 0))
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
	source->fd = fd;
	source->events = events;
}

void
loop_unwatch(struct loop *loop, struct source *source)
{
	if (source->fd >= 0)
		loop_watch(loop, source, -1, 0);
}

void
loop_poll(struct loop *loop, int timeout_ms)
{
	struct epoll_event ev[EVENTS_AT_ONCE];
	uint64_t expirations;
	int n = epoll_wait(loop->epoll_fd, ev, EVENTS_AT_ONCE, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct source *source = ev[i].data.ptr;

		/* If another source's ready() has stopped this one in this round, this one still
		 * exists but is not watched any more. */
		if (source != NULL && source->fd >= 0)
			source->ready(source);
		else if (source == NULL &&
		    read(loop->timer_fd, &expirations, sizeof(expirations)) > 0)
			loop->timer_at = UINT64_MAX;
	}
}

int
loop_open(struct loop *loop, struct koda_error *err)
{
	/* No source: the timer. */
	struct epoll_event timer = { .events = EPOLLIN, .data.ptr = NULL };

	*loop = LOOP_CLOSED;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->epoll_fd < 0 || loop->timer_fd < 0 ||
	    epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->timer_fd, &timer) < 0)
		return err_set(err, KODA_INTERNAL, errno, "event loop");
	return 0;
}

void
loop_abandon(struct loop *loop)
{
	loop->dispatching = true; /* so that loop_wake() does not set the timer */
}

void
loop_close(struct loop *loop)
{
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	if (loop->timer_fd >= 0)
		close(loop->timer_fd);
	*loop = LOOP_CLOSED;
}
