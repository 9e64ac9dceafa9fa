/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/door.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "mcp/fault.h"
#include "shared/base/clock.h"

#define PAUSE_SECONDS 2

int
door_watch(struct door *door, int fd, uint32_t events, unsigned who)
{
	struct epoll_event event = { .events = events, .data.u32 = who };

	return epoll_ctl(door->poll, EPOLL_CTL_ADD, fd, &event);
}

void
door_forget(struct door *door, int fd)
{
	epoll_ctl(door->poll, EPOLL_CTL_DEL, fd, NULL);
}

int
door_open(struct door *door, struct runtime *rt, const char *kind, int type, struct koda_error *err)
{
	*door = (struct door)DOOR_EMPTY;
	door->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	door->poll = epoll_create1(EPOLL_CLOEXEC);
	if (door->timer < 0 || door->poll < 0)
		return fault_set(err, KODA_INTERNAL, errno, "make the %s socket", kind);
	door->listener = runtime_listen(rt, kind, type, err);
	if (door->listener < 0)
		return -1;
	if (door_watch(door, door->listener, EPOLLIN, DOOR_LISTENER) < 0 ||
	    door_watch(door, door->timer, EPOLLIN, DOOR_TIMER) < 0)
		return fault_set(err, KODA_INTERNAL, errno, "make the %s socket", kind);
	return 0;
}

void
door_done(struct door *door)
{
	if (door->listener >= 0)
		close(door->listener);
	if (door->timer >= 0)
		close(door->timer);
	if (door->poll >= 0)
		close(door->poll);
	*door = (struct door)DOOR_EMPTY;
}

int
door_accept(struct door *door)
{
	int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* With no free descriptor the listener would stay readable, and the loop would never
	 * rest. */
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
		door_forget(door, door->listener);
		door->paused_until = boottime_s() + PAUSE_SECONDS;
	}
	return fd;
}

size_t
door_events(struct door *door, unsigned ret[DOOR_EVENTS_MAX])
{
	struct epoll_event events[DOOR_EVENTS_MAX];
	int n = epoll_wait(door->poll, events, DOOR_EVENTS_MAX, 0);

	for (int i = 0; i < n; i++)
		ret[i] = events[i].data.u32;
	return n > 0 ? (size_t)n : 0;
}

void
door_timer(struct door *door)
{
	uint64_t times;

	(void)!read(door->timer, &times, sizeof(times));
	if (door->paused_until != 0 && door->paused_until <= boottime_s() &&
	    door_watch(door, door->listener, EPOLLIN, DOOR_LISTENER) == 0)
		door->paused_until = 0;
}

void
door_wake_at(struct door *door, int64_t first)
{
	struct itimerspec when = { 0 };

	when.it_value.tv_sec = door->paused_until != 0 && (first == 0 || door->paused_until < first)
	    ? door->paused_until
	    : first;
	timerfd_settime(door->timer, TFD_TIMER_ABSTIME, &when, NULL);
}
