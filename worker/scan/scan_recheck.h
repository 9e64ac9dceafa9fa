/* SPDX-License-Identifier: Apache-2.0 */
/* Judges places again in which no event may show a change: those that commands can still write to,
 * those in caches, and those that something outside may have removed. */
#ifndef KODA_WORKER_SCAN_SCAN_RECHECK_H
#define KODA_WORKER_SCAN_SCAN_RECHECK_H

struct scan;

/* The first two return -1 without memory. */
int judge_unsealed(struct scan *sc);
int judge_cached(struct scan *sc);
void verify_known(struct scan *sc);

#endif
