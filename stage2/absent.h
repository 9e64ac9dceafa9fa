/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the places of a plan that are to be hidden, do not exist, and cannot be made by a
 * command. The nearest existing directory of each is shown through a mirror (stage2/mirror.h) that
 * never shows the name. The mirror is an entry of the view before the entries below it.
 */
#ifndef KODA_STAGE2_ABSENT_H
#define KODA_STAGE2_ABSENT_H

#include "stage2/view_entry.h"

/* Call it before anything of the plan is mounted. Returns 0, or -1 with *err set. */
int absent_add_mirrors(struct slot_view *v, struct koda_error *err);

#endif
