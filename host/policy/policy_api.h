/* The public policy as the host's other modules see it: koda_policy_*() of include/koda/sandbox.h. */
#ifndef KODA_HOST_POLICY_POLICY_API_H
#define KODA_HOST_POLICY_POLICY_API_H

#include "shared/rules/policy.h"

/* Its content, also while rules are still added. */
const struct policy *koda_policy_get(const struct koda_policy *policy);

bool koda_policy_frozen(const struct koda_policy *policy);

/* Packed bytes and their digest (KODA_DIGEST_BYTES) of a frozen policy, the policy's; of another: NULL. */
const uint8_t *koda_policy_packed(const struct koda_policy *policy, size_t *ret_len);
const uint8_t *koda_policy_digest(const struct koda_policy *policy);

/* One more owner of a frozen policy; each calls koda_policy_free() once, from any thread. NULL if it
 * is not frozen. */
struct koda_policy *koda_policy_ref(const struct koda_policy *policy);

#endif
