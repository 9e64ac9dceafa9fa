/* SPDX-License-Identifier: Apache-2.0 */
/* A point in time as a user gives it. Pure. */
#ifndef KODA_CLI_SINCE_H
#define KODA_CLI_SINCE_H

#include <time.h>

#include "cli/args.h"

/*
 * Reads "90s", "30m", "2h", "3d" or "1w" (that long before now), "14:30" (today, or yesterday if that
 * is still to come), "2026-01-31", "2026-01-31 14:30[:05]" (a 'T' may stand for the blank), or
 * "@1767225600" (seconds since the epoch). Returns 0 with seconds since the epoch, or -1 with one
 * sentence in why.
 */
int since_parse(const char *text, time_t now, double *ret, char why[ARGS_WHY_MAX]);

#endif
