/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict on one file that can lead git out of its directory: an index, a ref, or a list of
 * paths. gitstate.h decides which text is harmless.
 */
#ifndef KODA_WORKER_SCAN_FOLLOWED_JUDGE_H
#define KODA_WORKER_SCAN_FOLLOWED_JUDGE_H

#include "worker/scan/plant.h"

/* Lists whose paths are judged by what they lead to. */
#define FOLLOWED_MERGE_RR "MERGE_RR"
#define FOLLOWED_GITDIR   "gitdir" /* names the .git file of a linked worktree */

/* Returns true for the kinds of files that git follows. */
bool followed_is(enum what what);
/* Returns true if the verdict on a file of that name depends on more than its text. Each comparison
 * then judges it. */
bool followed_depends(const char *name);

/* Judge one file of kind WHAT_INDEX, WHAT_REF or WHAT_LIST. */
enum plant_end followed_judge(struct scan *sc, struct plant *p);

#endif
