/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of each mode: the one table from which policies are derived. */
#ifndef KODA_HOST_POLICY_TRUST_H
#define KODA_HOST_POLICY_TRUST_H

#include "shared/rules/policy.h"

/*
 * The policy of a mode for a project. root need not exist: then the policy's rules contain it as
 * written. Returns 0 with *ret, which the caller releases with policy_done(), or -1 with *err set.
 *
 * The rows of default_protected go into deny_write_within_allow and, for any depth, into
 * deny_write_names: the project's rows below the root, and the home directory's rows if the root or
 * a cache makes a place around them writable. A caller that allows writing outside the root has to
 * add its own denials there.
 */
int policy_for_agent(enum koda_mode mode, const char *root, struct policy *ret,
    struct koda_error *err);

#endif
