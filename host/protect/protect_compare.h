/* Compares what commands left with what existed before (protect_compare(), in
 * host/protect/protect.h). */
#ifndef KODA_HOST_PROTECT_PROTECT_COMPARE_H
#define KODA_HOST_PROTECT_PROTECT_COMPARE_H

#include "host/protect/protect_state.h"

/* Compare once, wait, and take all replies. Returns 0, or -1 with *err set. */
int protect_compare_now(struct sandbox *sb, struct koda_error *err);

#endif
