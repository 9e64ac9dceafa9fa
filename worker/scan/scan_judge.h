/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a place that was found: it becomes known, is reported, or is taken away. */
#ifndef KODA_WORKER_SCAN_SCAN_JUDGE_H
#define KODA_WORKER_SCAN_SCAN_JUDGE_H

#include "worker/scan/scan_state.h"

/* Whether the scan should look inside what it found. */
enum seen {
	/* Nothing special, or not any more: look inside. */
	SEEN_OPEN,
	/* Commands cannot change what is inside, or it is gone. */
	SEEN_CLOSED,
};

enum seen found(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name);
/* Like found(), for a place that came with a directory that a command made: `made` is that
 * directory, or NONE. Only WHAT_NAME and WHAT_TOLD use it. */
enum seen found_in(struct scan *sc, enum what what, int dir_fd, const char *path, const char *name,
    uint32_t made);

/* Adds what every known place names or leads to. */
void find_all_targets(struct scan *sc);

#endif
