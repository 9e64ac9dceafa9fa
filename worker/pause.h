/*
 * Where a test stops or slows a worker, to kill it between two steps. Nothing at all in what is
 * installed: built with -DKODA_STOP_AT=n the worker stops itself at point n, with -DKODA_SLOW it
 * dawdles at every point now and then.
 */
#ifndef KODA_WORKER_PAUSE_H
#define KODA_WORKER_PAUSE_H

enum pause_point {
	PAUSE_TEMP_MADE = 1,    /* the temporary file is there, and empty */
	PAUSE_TEMP_WRITTEN = 2, /* written and dressed; Prepared is not sent yet */
	PAUSE_PREPARED = 3,     /* Prepared is sent, nothing has happened yet */
	PAUSE_ACTED = 4,        /* renamed; nothing is said about it yet */
	PAUSE_COMMITTED = 5,    /* Remove: Committed is sent, nothing is unlinked yet */
	PAUSE_VERDICT = 6,      /* Recover: Verdict is sent, nothing is cleaned up yet */
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
	/* The low digits of the clock are as random as a test needs them. */
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
