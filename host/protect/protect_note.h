/* SPDX-License-Identifier: Apache-2.0 */
/* What the protection records as violations of its slot. */
#ifndef KODA_HOST_PROTECT_PROTECT_NOTE_H
#define KODA_HOST_PROTECT_PROTECT_NOTE_H

#include "host/protect/protect_state.h"

/* Record a violation that is not about one change, on behalf of the command to blame. */
void protect_note(struct protect *p, enum koda_violation_kind kind, const char *target,
    const char *rule, const char *detail);
void protect_note_cut(struct protect *p); /* not all files were covered; once a slot */

#endif
