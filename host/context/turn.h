/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of a session's loop: ready sources are read, all parts check their deadlines, callbacks
 * run, and the loop is told what to wait for next. The parts register here as tickers; the turn
 * knows none of them. */
#ifndef KODA_HOST_CONTEXT_TURN_H
#define KODA_HOST_CONTEXT_TURN_H

#include <stdint.h>

#include "shared/base/err.h"

struct handle;
struct koda_session;

/* A part's share in a turn. */
struct ticker {
	/* After the sources were read: check deadlines, and do what can be done now. */
	void (*tick)(struct koda_session *ses);
	/* After the callbacks have run: send what they queued, together. NULL: nothing. */
	void (*flush)(struct koda_session *ses);
	/* Watch what the part waits for. Returns the time (ns) of its next tick; UINT64_MAX:
	 * none. */
	uint64_t (*next_time)(struct koda_session *ses);
};

/* Parts have their turn in the order in which they were added. There are at most TICKERS_MAX. */
void turn_add(struct koda_session *ses, const struct ticker *t);

/* A turn of at most timeout_ms (-1: no limit). Does nothing inside one of the loop's callbacks. */
void turn_once(struct koda_session *ses, int timeout_ms);
/* Run the loop until it is over, for at most timeout_ms (-1: no limit). Returns 1 when it is
 * over (and may have been freed), 0 when it is not yet, -1 with *err set. */
int turn_until_over(struct handle *handle, int timeout_ms, struct koda_error *err);

#endif
