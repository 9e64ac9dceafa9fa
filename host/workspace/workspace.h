/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a koda_slot is made of: the slot with its worker, the kernel sandbox, the protection of the
 * project, the commands and the searches. Only this folder knows all of them: it makes them, starts
 * their programs, gives each its share in a turn of the loop, and ends them in the right order.
 */
#ifndef KODA_HOST_WORKSPACE_WORKSPACE_H
#define KODA_HOST_WORKSPACE_WORKSPACE_H

#include "host/slot/state.h"

/* A slot, with a sandbox if the session has commands. Finishes what a killed session has left where
 * the slot acts (host/workspace/recovery). Waits, but starts no worker of the slot yet. Returns NULL
 * with *err set. */
struct koda_slot *workspace_new(struct koda_session *ses, struct koda_policy *policy,
    const char *draft, struct koda_error *err);
/* Start what is not running: the worker, and with commands the sandbox and its protection.
 * Waits. */
int workspace_make_ready(struct koda_slot *slot, struct koda_error *err);
/* Ends the slot's commands and compares a last time (host/workspace/ending), which may wait if any
 * have run. Then ends everything, and answers all outstanding calls with KODA_WORKER. */
void workspace_free(struct koda_slot *slot);
/* In a forked child, before workspace_free(): do not touch the processes, which are the parent's. */
void workspace_abandon(struct koda_slot *slot);

/* Nothing of the library is on the stack any more: free what a part of the slot could not free. */
void workspace_settle(struct koda_slot *slot);

/* The slot's share in a turn of the loop; see struct ticker. */
void workspace_tick(struct koda_slot *slot);
void workspace_flush(struct koda_slot *slot);
uint64_t workspace_next_time(struct koda_slot *slot);

#endif
