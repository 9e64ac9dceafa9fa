/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison: what have commands planted since the scan? The worker compares, and takes planted
 * files away; this file decides when, and who hears of it. */
#ifndef KODA_HOST_PROTECT_PROTECT_COMPARE_H
#define KODA_HOST_PROTECT_PROTECT_COMPARE_H

#include "host/protect/protect_state.h"

/* Have the worker compare. The loop calls `done` once; the results are then in the slot's
 * violations, and new places are mounted before the next command runs. blame: the command, for the
 * violations. */
int protect_compare(struct protect *p, enum protect_how how, const char *blame,
    protect_done_fn *done, void *data, struct koda_error *err);
/* Drop the `done` callbacks that have this `data`. */
void protect_forget(struct protect *p, void *data);
/* Start a PROTECT_LOOK, if no comparison is under way. */
void protect_look(struct protect *p, const char *blame);

/* Compare once and take all replies. Waits. */
int protect_compare_now(struct protect *p, struct koda_error *err);
/*
 * Compare a last time, after the slot's commands were ended. Waits, at most until `until` (ns).
 * Builds the sandbox and the worker again if they are gone. Returns 0, or -1 if it did not finish
 * and the next session has to do it.
 */
int protect_compare_last(struct protect *p, uint64_t until, struct koda_error *err);

#endif
