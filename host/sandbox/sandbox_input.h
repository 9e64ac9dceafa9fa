/* What a sandbox is built from: the policy, the session's places, and the caches. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_INPUT_H
#define KODA_HOST_SANDBOX_SANDBOX_INPUT_H

#include "host/sandbox/sandbox.h"

/* Find the caches and the git directory outside of the root. Returns 0, or -1 with *err set. */
int sandbox_find_caches(struct sandbox *sb, struct koda_error *err);
/* Plan the view without the places that a worker finds. Returns 0, or -1 with *err set. */
int sandbox_plan(struct sandbox *sb, struct koda_error *err);

#endif
