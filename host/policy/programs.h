/* SPDX-License-Identifier: Apache-2.0 */
/* Directories in which this user's shell finds programs, in addition to the names of
 * host/policy/defaults: those that PATH and npm's prefix name on this machine. */
#ifndef KODA_HOST_POLICY_PROGRAMS_H
#define KODA_HOST_POLICY_PROGRAMS_H

#include "shared/rules/policy.h"

/* Adds to *ret each absolute entry of PATH, and the directories of programs and modules below npm's
 * prefix, as NPM_CONFIG_PREFIX and home/.npmrc set it. Returns 0, or -1 with *err set. */
int programs_find(const char *home, struct policy_list *ret, struct koda_error *err);

#endif
