/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells stage2's own processes from those that a command has left, and kills the latter. A
 * command's reaper is a child of pid 1. Any other child of pid 1 that is not known has lost its
 * reaper: it is a stranger, and so are its descendants.
 */
#ifndef KODA_STAGE2_STRANGERS_H
#define KODA_STAGE2_STRANGERS_H

#include "stage2/stage2.h"

/* Returns true for the template and the spawner, without which stage2 cannot go on, and for the
 * maker of links. */
bool strangers_is_helper(const struct stage2 *s, pid_t pid);

/* Returns true if pid is the template, the spawner, the maker of links, the worker, a search,
 * the meter, or the reaper of a command that is not over: processes that are not part of a
 * command. Also returns true while the number of some reaper is not known yet, because pid may
 * be that reaper. */
bool strangers_is_ours(const struct stage2 *s, pid_t pid);

/* Returns 1 if there is a stranger, 0 if there is none, -1 if that is not known now. */
int strangers_find(struct stage2 *s);

/* Kills the strangers that it finds. They may have forked more meanwhile, so call strangers_find()
 * again. */
void strangers_end(struct stage2 *s);
/* No stranger is left: the rounds of killing are counted from the beginning again. */
void strangers_are_gone(struct stage2 *s);

#endif
