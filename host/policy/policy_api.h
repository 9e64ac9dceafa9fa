/* SPDX-License-Identifier: Apache-2.0 */
/* The public policy as the host's other modules use it: koda_policy_*() of
 * include/koda/sandbox.h. */
#ifndef KODA_HOST_POLICY_POLICY_API_H
#define KODA_HOST_POLICY_POLICY_API_H

#include "shared/rules/policy.h"

/* Its content, even while rules are still being added. The policy owns it. */
const struct policy *koda_policy_get(const struct koda_policy *policy);

bool koda_policy_frozen(const struct koda_policy *policy);

/* The packed bytes and their digest (KODA_DIGEST_BYTES) of a frozen policy, which the policy owns.
 * NULL if it is not frozen. */
const uint8_t *koda_policy_packed(const struct koda_policy *policy, size_t *ret_len);
const uint8_t *koda_policy_digest(const struct koda_policy *policy);

/* Adds an owner to a frozen policy; each owner calls koda_policy_free() once, from any thread.
 * Returns NULL if the policy is not frozen. */
struct koda_policy *koda_policy_ref(const struct koda_policy *policy);

#endif
