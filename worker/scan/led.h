/* SPDX-License-Identifier: Apache-2.0 */
/* What a protected place leads to by links. It is protected like the place itself. */
#ifndef KODA_WORKER_SCAN_LED_H
#define KODA_WORKER_SCAN_LED_H

#include "worker/scan/scan_found.h"

struct scan;

/* Limits for one place, more than hooks and settings have. Beyond them nothing is covered, and the
 * scan reports that. */
#define LED_LINKS_MAX   256
#define LED_ENTRIES_MAX 4096
#define LED_DEPTH_MAX   8
/* Limit for all places together, including targets of targets: each becomes a guard that names are
 * compared with. */
#define LED_TARGETS_MAX 1024

/*
 * Add every hop and the target of each link that is `place` (canonical) or is inside it. `what` is
 * the kind of the place. *left is how many targets may still be added.
 */
void led_find(struct scan *sc, enum what what, const char *place, unsigned *left);

/* Returns the kind of the targets that a place of kind `what` at `path` leads to. */
enum what led_what(enum what what, const char *path);

#endif
