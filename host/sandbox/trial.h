/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries what a sandbox needs of this machine, as the sandbox will use it: by koda-sandbox-launch,
 * whose AppArmor profile counts, and then by a program that bubblewrap started. For doctor, and for
 * the message when a sandbox does not start.
 *
 * Tests: tests/integration/refused_test.c.
 */
#ifndef KODA_HOST_SANDBOX_TRIAL_H
#define KODA_HOST_SANDBOX_TRIAL_H

#include <stddef.h>

#include "shared/confine/userns.h"

/* launch, bwrap: the programs' paths; "": not installed, and not tried. Fills *ret with what was
 * refused first; USERNS_ALL too if nothing could be tried. */
void trial_run(const char *launch, const char *bwrap, struct userns_outcome *ret);

/* For when a sandbox does not start: writes to ret what this machine lacks for it, and the one
 * command that helps, or where that is printed if it does not fit: never half of it. */
void trial_explain(const char *launch, const char *bwrap, char *ret, size_t size);

#endif
