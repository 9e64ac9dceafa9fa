/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the processes of a sandbox. */
#ifndef KODA_HOST_SANDBOX_SANDBOX_END_H
#define KODA_HOST_SANDBOX_SANDBOX_END_H

#include "host/sandbox/state.h"

/* End the processes that sandbox_boot() has started, also those that a failed boot has left. If the
 * host has made mount points for caches, this waits until stage2 is gone, up to two seconds. */
void sandbox_forget(struct sandbox *sb);
/* Kill a sandbox that is broken or hangs, and report that. Every command that was running ends with
 * KODA_UNKNOWN. */
void sandbox_kill(struct sandbox *sb, const struct koda_error *why);

#endif
