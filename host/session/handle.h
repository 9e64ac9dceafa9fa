/*
 * What an embedder holds of something that is under way: a command, a search. It may free it from inside any callback,
 * also while one of our functions is going on with it: so whoever goes on holds it, and the last one destroys it. From
 * inside the event callback, which anything may call in the middle of anything, that is done when the stack is ours again.
 */
#ifndef KODA_HOST_SESSION_HANDLE_H
#define KODA_HOST_SESSION_HANDLE_H

#include <stdbool.h>

#include "shared/base/err.h"

struct koda_session;

struct handle {
	struct koda_session *ses;
	struct handle *next;     /* of those that are over, and whose embedder is to be told */
	struct handle *unwanted; /* the next of those that were freed in an event */
	bool over, in_line, is_unwanted, freed;
	unsigned held;
	void (*tell)(struct handle *handle); /* calls back; may free it */
	void (*give_up)(struct handle *handle);
	void (*destroy)(struct handle *handle);
};

void handle_hold(struct handle *handle);
void handle_let_go(struct handle *handle);

/* The embedder does not want it any more. True: not now, give_up is called later. */
bool handle_postpone(struct handle *handle);
/* It is given up, and not told of. */
void handle_free(struct handle *handle);

/* Run the loop until it is over, for at most timeout_ms (-1: no limit). 1: it is, and may be gone; 0: not yet; -1 with *err set. */
int handle_wait(struct handle *handle, int timeout_ms, struct koda_error *err);

#endif
