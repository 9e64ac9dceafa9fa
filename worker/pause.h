/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points at which a test stops or slows down a worker, to kill it between two steps. An installed
 * worker contains none of this: built with -DKODA_STOP_AT=n the worker stops itself at point n,
 * built with -DKODA_SLOW it sleeps briefly at every fourth point or so.
 */
#ifndef KODA_WORKER_PAUSE_H
#define KODA_WORKER_PAUSE_H

enum pause_point {
	PAUSE_TEMP_MADE = 1,    /* the temporary file exists and is empty */
	PAUSE_TEMP_WRITTEN = 2, /* content and attributes written; Prepared not sent yet */
	PAUSE_PREPARED = 3,     /* Prepared sent, nothing changed yet */
	PAUSE_ACTED = 4,        /* renamed; not reported yet */
	PAUSE_COMMITTED = 5,    /* Remove: Committed sent, nothing unlinked yet */
	PAUSE_VERDICT = 6,      /* Recover: Verdict sent, nothing cleaned up yet */
	/* Swap (worker/draft): */
	PAUSE_SWAP_NOTED = 7,    /* the file in the layer is noted, its attributes are there */
	PAUSE_SWAP_OPENED = 8,   /* it is writable for its owner, its attributes are there */
	PAUSE_SWAP_STRIPPED = 9, /* its attributes are removed, it is still writable */
	PAUSE_SWAP_BROUGHT = 10, /* the place has its new state; nothing else is done */
	PAUSE_SWAP_HELD = 11,    /* what was at the place is in `old` */
	PAUSE_SWAP_COPYING = 12, /* a copy is begun, or a directory is made, without content */
	PAUSE_SWAP_COPIED = 13,  /* what is for the place has the temporary name, complete */
	PAUSE_SWAP_PART = 14,    /* what was at the place is copied, not yet under its name */
	PAUSE_SWAP_CLEANED = 15, /* the temporary name is removed */
	/* With a history (worker/files/keep): */
	PAUSE_KEPT = 16,  /* what will be taken away is held, and written down */
	PAUSE_TAKEN = 17, /* Remove: the directory was moved to the history */
};

#if defined(KODA_STOP_AT) || defined(KODA_SLOW)
#define KODA_PAUSES 1

#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static inline void
pause_at(enum pause_point point)
{
#ifdef KODA_STOP_AT
	if (point == (enum pause_point)(KODA_STOP_AT))
		kill(getpid(), SIGSTOP);
#endif
#ifdef KODA_SLOW
	struct timespec now, nap = { 0, 0 };

	clock_gettime(CLOCK_MONOTONIC, &now);
	/* The low digits of the clock are random enough for a test. */
	if (now.tv_nsec / 64 % 4 == 0) {
		nap.tv_nsec = now.tv_nsec % 2000000;
		nanosleep(&nap, NULL);
	}
#endif
}
#define PAUSE_POINT(n) pause_at(n)
#else
#define PAUSE_POINT(n) ((void)0)
#endif

#endif
