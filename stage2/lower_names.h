/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices that another process makes, removes or replaces names in the lower directories of a draft,
 * so that overlay_refresh() is called only when it is needed: afterwards commands look up each name
 * again, which takes longer than all else that they do with it.
 *
 * Directories are watched with inotify, a few at a time while no command runs, because building a
 * slot must not take longer in a larger project. Until all are watched, and in projects with too
 * many, every name may have changed.
 */
#ifndef KODA_STAGE2_LOWER_NAMES_H
#define KODA_STAGE2_LOWER_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct lower_names;

/* Returns NULL if nothing can be watched, which the other functions accept. Call it before stage2 has
 * its filter. */
struct lower_names *lower_names_new(void);
void lower_names_free(struct lower_names *n);
/* Watch the names below this directory, too. Takes over the descriptor. */
void lower_names_add(struct lower_names *n, int root);

/* Returns true if a name may be another one since the last call. Call it when a command or a file
 * operation is about to look up names. */
bool lower_names_changed(struct lower_names *n);
/* The last command is over: what only exists until the next call above is no change. */
void lower_names_idle(struct lower_names *n);

/* Returns true if there are directories to look at. */
bool lower_names_waits(const struct lower_names *n);
/* Look at some of them. */
void lower_names_look(struct lower_names *n);

#endif
