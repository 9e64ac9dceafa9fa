/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel reports of the watched directories: decides which of them have to be read
 * again. */
#ifndef KODA_WORKER_SCAN_SCAN_EVENTS_H
#define KODA_WORKER_SCAN_SCAN_EVENTS_H

#include "worker/scan/scan_state.h"

/* Process all pending events. Returns 1 if there were any, 0, or -1 without memory. */
int events_take(struct scan *sc);

#endif
