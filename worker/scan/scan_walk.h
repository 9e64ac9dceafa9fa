/* SPDX-License-Identifier: Apache-2.0 */
/* The way through the scanned directories: from the roots down, or to one directory in which
 * something happened. Follows no link and crosses into no file system of the kernel. */
#ifndef KODA_WORKER_SCAN_SCAN_WALK_H
#define KODA_WORKER_SCAN_SCAN_WALK_H

#include "worker/scan/scan_state.h"

/* Each returns 0, or -1 without memory. */

/* Visit what is left to visit, and what that leads to. */
int walk_rest(struct scan *sc);
/* Visit everything; directories that are gone are forgotten. */
int walk_all(struct scan *sc);
/* Read one directory in which something happened, but not those below it. */
int walk_one(struct scan *sc, uint32_t idx);

#endif
