/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's loop: one epoll set with the descriptors of all sources, and one timer. Any other
 * loop can watch the whole set as one descriptor. The loop knows sources, but not their owners.
 */
#ifndef KODA_HOST_LOOP_LOOP_H
#define KODA_HOST_LOOP_LOOP_H

#include <stdbool.h>

#include "host/loop/source.h"
#include "shared/base/err.h"

struct loop {
	int epoll_fd, timer_fd;
	uint64_t timer_at; /* ns: when the timer fires; UINT64_MAX: it does not */
	bool dispatching;  /* a turn is under way; when it ends, it sets the timer */
};

/* For a loop that loop_close() may be called on. */
#define LOOP_CLOSED ((struct loop){ .epoll_fd = -1, .timer_fd = -1, .timer_at = UINT64_MAX })

/* Returns 0, or -1 with *err set; call loop_close() in both cases. */
int loop_open(struct loop *loop, struct koda_error *err);
void loop_close(struct loop *loop);
/* In a forked child, which shares the set and the timer with its parent: leave them as they are. */
void loop_abandon(struct loop *loop);

/* Watch `fd` as the source's descriptor for these events. fd -1: stop watching; do so before the
 * descriptor is closed. */
void loop_watch(struct loop *loop, struct source *source, int fd, uint32_t events);
void loop_unwatch(struct loop *loop, struct source *source);

/* Wake up at that time (ns) at the latest. */
void loop_wake_at(struct loop *loop, uint64_t at);
/* There is something to do that no source reports. During a turn this does nothing. */
void loop_wake(struct loop *loop);
/* At the end of a turn: the time at which the loop has to wake up next. */
void loop_set_time(struct loop *loop, uint64_t at);

/* Wait at most timeout_ms (-1: no limit), and call the sources that are ready. */
void loop_poll(struct loop *loop, int timeout_ms);

#endif
