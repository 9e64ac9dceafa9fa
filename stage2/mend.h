/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts again what a process outside made disappear, and mounts what is to be hidden and has
 * appeared, while every process of the slot is stopped.
 */
#ifndef KODA_STAGE2_MEND_H
#define KODA_STAGE2_MEND_H

#include "stage2/stage2.h"

/* Repair everything: stop the processes, mount again, end holders, continue the others, report. Does
 * not return if what is writable is unknown then: stage2 ends. */
void mend_places(struct stage2 *s);

#endif
