/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a match that takes too long: PCRE2's limits count steps, and the pattern decides what a step
 * costs. The same for compiling, which has no limit but the pattern's length: a class of all
 * characters without regard to case takes milliseconds, and there is room for thousands. Uses a
 * timer on the process's own processor time; its handler itself reports to the host and ends the
 * process, which has nothing to lose. The handler also ends a search when the host is gone; the
 * search would notice that only when it reports something.
 */
#ifndef KODA_SEARCH_WATCHDOG_H
#define KODA_SEARCH_WATCHDOG_H

#include "search/grep.h"
#include "worker/session.h"

#define WATCHDOG_TICK_MS 50 /* of processor time */
#define WATCHDOG_TICKS   16 /* of one match, or of compiling all patterns: well below a second */

/* Installs the timer. Call before seccomp: it needs system calls that a search does not. Returns
 * 0, or -1 with errno. */
int watchdog_install(void);
/* Watches the compiling of the patterns, and replies to the current request if it takes too
 * long. While it watches, no reply may be queued. */
void watchdog_compiling(struct session *ses);
/* Like watchdog_compiling(), for these matches. */
void watchdog_watch(struct session *ses, struct grep *grep);
void watchdog_stop(void);

#endif
