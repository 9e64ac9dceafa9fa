/*
 * A match that does not come to its end is ended: PCRE2's limits count steps, and what a step costs is the pattern's to
 * say. So is compiling, which has no limit at all but the pattern's length: a class of all characters without regard to case
 * takes milliseconds, and there is room for thousands. A timer on the process's own processor time; its handler tells the host by itself and ends the process, which has
 * nothing to lose. It also ends a search whose host is gone, which would notice when it has something to tell.
 */
#ifndef KODA_SEARCH_WATCHDOG_H
#define KODA_SEARCH_WATCHDOG_H

#include "search/grep.h"
#include "worker/session.h"

#define WATCHDOG_TICK_MS 50 /* of processor time */
#define WATCHDOG_TICKS   16 /* of one match, or of compiling all: well below a second */

/* Before seccomp: it takes calls that a search does not. -1 with errno. */
int watchdog_install(void);
/* From now on it answers the request under way, of which nothing may be queued while it looks: patterns are compiled. */
void watchdog_compiling(struct session *ses);
/* And then, at these matches. */
void watchdog_watch(struct session *ses, struct grep *grep);
void watchdog_stop(void);

#endif
