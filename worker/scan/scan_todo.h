/* SPDX-License-Identifier: Apache-2.0 */
/* What a scan has yet to read: names that a walk has not visited (steps), and directories in which
 * something happened (dirty). */
#ifndef KODA_WORKER_SCAN_SCAN_TODO_H
#define KODA_WORKER_SCAN_SCAN_TODO_H

#include "worker/scan/scan_state.h"

/* Add a name in the directory `parent`. again: read it even if it is already watched. -1: no
 * memory. */
int todo_step(struct scan *sc, uint32_t parent, const char *name, bool again);
/* Add a directory. -1: no memory. */
int todo_dirty(struct scan *sc, uint32_t idx);
/* Drop everything: a walk will read it all. */
void todo_forget(struct scan *sc);

#endif
