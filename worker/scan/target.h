/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what git's configuration names in the directories in which commands may write: hooks,
 * included files, programs. */
#ifndef KODA_WORKER_SCAN_TARGET_H
#define KODA_WORKER_SCAN_TARGET_H

#include <stdbool.h>

struct scan;

/* Adds those targets to the scan. path: a git directory, a configuration in one, or (gitfile) a
 * file that names one, which may be anywhere. */
void target_find(struct scan *sc, const char *path, bool gitfile);

#endif
