/* The mode's dials: the one table that a policy is derived from. */
#ifndef KODA_HOST_TRUST_H
#define KODA_HOST_TRUST_H

#include "shared/policy.h"

/*
 * The policy of a mode for a project. root need not exist: then its rules name it as it is written. On
 * success *ret is the caller's to policy_done.
 */
int policy_for_agent(enum koda_mode mode, const char *root, struct policy *ret,
    struct koda_error *err);

#endif
