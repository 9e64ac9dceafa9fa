/* SPDX-License-Identifier: Apache-2.0 */
/* The mounts that keep commands from the protected places: planned from what the worker found, and
 * mounted. */
#ifndef KODA_HOST_PROTECT_PROTECT_PLAN_H
#define KODA_HOST_PROTECT_PROTECT_PLAN_H

#include "host/protect/protect_state.h"

/* Plan, and mount, unless this is mounted already. */
int protect_mount(struct protect *p, struct koda_error *err);
/* The worker was replaced: have the new one scan, then mount. Waits. */
int protect_restore(struct protect *p, struct koda_error *err);

#endif
