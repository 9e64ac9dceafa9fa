/* SPDX-License-Identifier: Apache-2.0 */
/* The first scan, and each comparison with what it found. */
#ifndef KODA_WORKER_SCAN_SCAN_COMPARE_H
#define KODA_WORKER_SCAN_SCAN_COMPARE_H

#include <stdbool.h>

#include "shared/base/err.h"

struct scan;

/* Scan everything for the first time: what exists is known. */
int scan_learn(struct scan *sc, struct koda_error *err);
/* Start with only the added places as known. The next comparison scans everything. */
int scan_resume(struct scan *sc, struct koda_error *err);
/* Let the next comparison read every directory again. */
void scan_walk_again(struct scan *sc);
/* Let the next comparison judge planted things that are still there once more. */
void scan_try_again(struct scan *sc);

/* How much of what is new or changed a comparison judges, and how strictly. */
enum scan_reach {
	/* Only what the host's git would use right now (live.h). */
	SCAN_LOOK,
	/* Everything, while commands run whose use of git must not be disturbed: only what does
	 * harm is taken away. */
	SCAN_GENTLY,
	/* Everything, and what is harmless becomes a file that no process holds open. */
	SCAN_ALL,
	/* The same after the host has mounted the reported places: each of them is judged one last
	 * time. */
	SCAN_ALL_MOUNTED,
};
/* Judge what is new or changed since the last comparison. busy: a command that ran since then still
 * runs, so the directories that it made still count as its own. */
int scan_compare(struct scan *sc, enum scan_reach reach, bool busy, struct koda_error *err);

#endif
