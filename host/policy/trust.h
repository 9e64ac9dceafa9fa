/* The mode's dials: the one table that a policy is derived from. */
#ifndef KODA_HOST_POLICY_TRUST_H
#define KODA_HOST_POLICY_TRUST_H

#include "shared/rules/policy.h"

/*
 * The policy of a mode for a project. root need not exist: then its rules name it as it is written. On
 * success *ret is the caller's to policy_done.
 *
 * deny_write_within_allow gets the rows of default_protected: the project's below the root, the home directory's as far
 * as the root or a cache makes something writable there. Who then allows more than the root denies within it himself.
 */
int policy_for_agent(enum koda_mode mode, const char *root, struct policy *ret,
    struct koda_error *err);

#endif
