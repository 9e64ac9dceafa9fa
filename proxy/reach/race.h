/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to the first of several addresses that accepts (RFC 8305): one after the other, with
 * 250 ms between attempts, alternating families. Judges no address: the caller has judged them all.
 */
#ifndef KODA_PROXY_REACH_RACE_H
#define KODA_PROXY_REACH_RACE_H

#include <ev.h>
#include <stddef.h>
#include <sys/socket.h>

enum race_end {
	RACE_WON,
	RACE_REFUSED, /* some addresses refused, and none timed out */
	RACE_TIMED_OUT,
	RACE_UNREACHABLE, /* network or host */
	RACE_NO_RESOURCES,
};

struct race_result {
	enum race_end end;
	int fd;     /* of RACE_WON, non-blocking; the callback owns it */
	int errnum; /* else: of the first attempt that failed */
};

typedef void race_fn(void *data, const struct race_result *result);
struct race;
/* Start a race of n addresses, at least one. It is over, and freed, when it calls fn. NULL: no
 * memory. */
struct race *race_start(struct ev_loop *loop, const struct sockaddr_storage *list, size_t n,
    race_fn *fn, void *data);
void race_cancel(struct race *r);

#endif
