/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket in the runtime directory: connections are accepted when the owner asks, each
 * guest has a deadline, and one descriptor says when there is something to do. Who the guests are
 * and what they want is the owner's business.
 */
#ifndef KODA_MCP_DOOR_H
#define KODA_MCP_DOOR_H

#include <stddef.h>
#include <stdint.h>

#include "mcp/runtime.h"

/* Maximum guests at once: children that have connected but not identified themselves, programs
 * that read a snapshot. */
#define DOOR_GUESTS_MAX 16

/* The subject of an event: the number of a guest, or one of these. */
enum {
	DOOR_LISTENER = DOOR_GUESTS_MAX,
	DOOR_TIMER,
};

struct door {
	int poll, listener, timer;
	int64_t paused_until; /* 0: the listener is being watched */
};
#define DOOR_EMPTY                                                                                 \
	{                                                                                          \
		-1, -1, -1, 0                                                                      \
	}

/* Opens the door. Returns -1 with *err set on failure; call door_done() in either case. */
int door_open(struct door *door, struct runtime *rt, const char *kind, int type,
    struct koda_error *err);
void door_done(struct door *door);

/* Accepts the next connection. Returns a non-blocking descriptor, or -1 if there is none. */
int door_accept(struct door *door);
/* Watches guest number `who`, until its descriptor is closed or door_forget() is called. Returns
 * -1 with errno on failure. */
int door_watch(struct door *door, int fd, uint32_t events, unsigned who);
void door_forget(struct door *door, int fd);

/* Returns what there is to do now: numbers of guests, or DOOR_LISTENER, DOOR_TIMER. */
#define DOOR_EVENTS_MAX (DOOR_GUESTS_MAX + 2)
size_t door_events(struct door *door, unsigned ret[DOOR_EVENTS_MAX]);
/* Handles DOOR_TIMER: a deadline has passed, a guest's or the listener's own. */
void door_timer(struct door *door);
/* Sets the earliest deadline of all guests; 0: none. */
void door_wake_at(struct door *door, int64_t first);

#endif
