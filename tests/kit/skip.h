/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case that cannot run on this machine says why, and is counted as skipped (tools/count-tests).
 * .ci/run allows no skipped case.
 */
#ifndef KODA_TESTS_KIT_SKIP_H
#define KODA_TESTS_KIT_SKIP_H

#include <stdbool.h>

/* Ends the case. */
void skip_because(const char *reason) __attribute__((noreturn));

/* For main(), instead of running any case. Returns 0. */
int skip_all(const char *reason);
/* For a program whose cases need inotify. The kernel counts its instances for each user, so other
 * programs can have used them up. */
bool has_inotify(void);
#define NO_INOTIFY "other programs have used up this user's inotify instances"

#endif
