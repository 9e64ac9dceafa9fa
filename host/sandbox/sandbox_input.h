/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox is built from: the policy, the session's places, and the caches. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_INPUT_H
#define KODA_HOST_SANDBOX_SANDBOX_INPUT_H

#include "host/sandbox/state.h"
#include "host/sandbox/view_plan.h"

/* Find the caches and the git directory outside of the root. Returns 0, or -1 with *err set. */
int sandbox_find_caches(struct sandbox *sb, struct koda_error *err);
/* Plan the view without the places that a worker finds. Returns 0, or -1 with *err set. */
int sandbox_plan(struct sandbox *sb, struct koda_error *err);

/* The part of the view's input that comes from the session and the policy, without the places that a
 * worker found. Points into *sb. */
struct view_input sandbox_view_input(const struct sandbox *sb);
/* The i-th directory of the host that commands may write beyond the policy's places: a worktree's
 * git directory, and the caches if the policy shares them. NULL beyond the last. */
const char *sandbox_beside(const struct sandbox *sb, size_t i);

#endif
