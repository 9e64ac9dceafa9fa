/* Directories in which this user's shell finds programs, beyond the names of host/policy/defaults: what PATH and npm's prefix say
 * on this machine. */
#ifndef KODA_HOST_POLICY_PROGRAMS_H
#define KODA_HOST_POLICY_PROGRAMS_H

#include "shared/rules/policy.h"

/* Each absolute entry of PATH, and of the prefix in home/.npmrc its programs and modules. */
int programs_find(const char *home, struct policy_list *ret, struct koda_error *err);

#endif
