/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections that are not established at once: a table of them, in which each is tried again
 * until its caller can be answered, is gone, has a signal to handle, or has waited as long as it
 * wanted to (SO_SNDTIMEO). Whether a caller may connect was decided before.
 */
#ifndef KODA_STAGE2_CONNECT_WAIT_H
#define KODA_STAGE2_CONNECT_WAIT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Further callers get EAGAIN. */
#define CONNECT_PENDING_MAX 512
/* Time of one turn of the loop, so that other work is checked in between. */
#define CONNECT_TURN_MS 2

/* A connection of a caller that waits for the answer to notification `id`. */
struct connect_waiter {
	uint64_t id;
	pid_t tid;
	int domain;
	int socket; /* the caller's */
	int target; /* what the address refers to by /proc/self/fd, or -1 */
	struct sockaddr_storage addr;
	socklen_t len;
};

struct connect_wait {
	int listener;                    /* not owned */
	struct pending_connect *pending; /* oldest first */
	size_t n, size, max;
	size_t from; /* index of the next one to serve */
};

/* Returns 0, or -1 with errno. */
int connect_wait_init(struct connect_wait *w, int listener);

/*
 * Adds a connection that has been tried once. Takes ownership of its descriptors, except on
 * failure. Returns 0, or -EAGAIN: no room, or too many of one process.
 */
int connect_wait_add(struct connect_wait *w, const struct connect_waiter *c);

/* See connect_pending() and connect_progress(). */
size_t connect_wait_poll(const struct connect_wait *w, struct pollfd *ret, size_t max,
    int *ret_timeout_ms);
void connect_wait_progress(struct connect_wait *w, const struct pollfd *fds, size_t n);

#endif
