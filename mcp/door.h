/*
 * A socket of the runtime directory at which others knock: who comes is taken when somebody looks, each has a time until
 * which he may stay, and one descriptor tells when there is something to do. Who they are, and what they want, is the
 * owner's business.
 */
#ifndef KODA_MCP_DOOR_H
#define KODA_MCP_DOOR_H

#include <stddef.h>
#include <stdint.h>

#include "mcp/runtime.h"

/* Guests at once: children that have connected and not said who they are, programs that read a snapshot. */
#define DOOR_GUESTS_MAX 16

/* What an event is about: a guest by his number, or these. */
enum {
	DOOR_LISTENER = DOOR_GUESTS_MAX,
	DOOR_TIMER,
};

struct door {
	int poll, listener, timer;
	int64_t paused_until; /* 0: the listener is watched */
};
#define DOOR_EMPTY                                                                                 \
	{                                                                                          \
		-1, -1, -1, 0                                                                      \
	}

/* -1 with *err set; door_done in any case. */
int door_open(struct door *door, struct runtime *rt, const char *kind, int type,
    struct koda_error *err);
void door_done(struct door *door);

/* The next one who has come: a descriptor that does not block; -1: nobody. */
int door_accept(struct door *door);
/* Look after guest number `who`. He leaves by being closed, or with door_forget. -1 with errno. */
int door_watch(struct door *door, int fd, uint32_t events, unsigned who);
void door_forget(struct door *door, int fd);

/* What there is to do now: numbers of guests, or DOOR_LISTENER, DOOR_TIMER. */
#define DOOR_EVENTS_MAX (DOOR_GUESTS_MAX + 2)
size_t door_events(struct door *door, unsigned ret[DOOR_EVENTS_MAX]);
/* Some time has come: somebody's, or the listener's own. */
void door_timer(struct door *door);
/* The first time that anybody's ends; 0: nobody waits for one. */
void door_wake_at(struct door *door, int64_t first);

#endif
