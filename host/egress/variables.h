/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables that name the user's own proxy. They are read once, when a session
 * opens, and checked then.
 */
#ifndef KODA_HOST_EGRESS_VARIABLES_H
#define KODA_HOST_EGRESS_VARIABLES_H

#include "shared/rules/upstream.h"

/* Returns 0, or -1 with *err set. In both cases the caller frees *ret with variables_done(). */
int variables_read(struct upstream_variables *ret, struct koda_error *err);
void variables_done(struct upstream_variables *v);

#endif
