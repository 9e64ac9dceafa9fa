/* SPDX-License-Identifier: Apache-2.0 */
/* What protected places lead to by links and by configuration, for judging the changes of a
 * session, with or without commands. */
#ifndef KODA_WORKER_SCAN_SCAN_LED_H
#define KODA_WORKER_SCAN_SCAN_LED_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/rules/access.h"

struct scan;

/* For a session without commands: find only what the policy's own paths lead to, for scan_led(). */
int scan_learn_led(struct scan *sc, struct koda_error *err);
/*
 * Returns the path (owned by the scan) of a place that configuration names, or that a link in a
 * protected place leads to, if it is `path` or above it or, with `below`, beneath it. Stores its
 * rule in *ret. Returns NULL if there is none.
 */
const char *scan_led(const struct scan *sc, const char *path, bool below, enum access_rule *ret);

/* Returns the i-th place that scan_led() knows; NULL after the last. */
const char *scan_guarded(const struct scan *sc, size_t i);

#endif
