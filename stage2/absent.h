/*
 * Of a plan: the places to be hidden that do not exist, and that no command can make. The nearest directory of each is
 * seen through a mirror (stage2/mirror.h) that never shows its name: an entry of the view before those below it.
 */
#ifndef KODA_STAGE2_ABSENT_H
#define KODA_STAGE2_ABSENT_H

#include "stage2/view.h"

/* Before anything of the plan is mounted. 0, or -1 with *err set. */
int absent_add_mirrors(struct view *v, struct koda_error *err);

#endif
