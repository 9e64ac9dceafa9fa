/* What a protected place leads to by links: protected like it. */
#ifndef KODA_WORKER_SCAN_LED_H
#define KODA_WORKER_SCAN_LED_H

#include "worker/scan/scan.h"

/* Of one place: more than hooks and settings have. What is beyond is not covered, which the scan says. */
#define LED_LINKS_MAX   256
#define LED_ENTRIES_MAX 4096
#define LED_DEPTH_MAX   8
/* Of all places together, targets of targets included: each is a guard that names are compared with. */
#define LED_TARGETS_MAX 1024

/*
 * Add each hop and the target of every link that is `place` (canonical), or is in it. `what`: the kind of it. *left: how many may still be added.
 */
void led_find(struct scan *sc, enum what what, const char *place, unsigned *left);

/* What a thing is that the place leads to. */
enum what led_what(enum what what, const char *path);

#endif
