/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot: one worker process at a time, and the calls it has to answer. Answers every call exactly
 * once, whatever happens to the worker.
 *
 * One state machine serves synchronous and asynchronous use: slot_advance() moves it as far as it
 * goes without waiting, the worker's socket is a source of the session's loop, slot_watch() watches
 * what the slot waits for. This file changes the states and checks the deadlines. Other files of
 * this folder do the work: worker (the process and its socket), outgoing and incoming (frames),
 * record and wreck (what became of the calls of a dead worker), call (the queue, and how a call
 * ends).
 */
#ifndef KODA_HOST_SLOT_SLOT_H
#define KODA_HOST_SLOT_SLOT_H

#include "host/slot/call.h"

struct koda_slot *slot_new(struct koda_session *ses, struct koda_policy *policy,
    const struct slot_client *client, struct koda_error *err);
/* Answers all outstanding calls with KODA_WORKER, and kills the worker without waiting for its
 * end. */
void slot_close(struct koda_slot *slot);
/* After slot_close(). */
void slot_free(struct koda_slot *slot);
/* Answers the embedder's outstanding calls with KODA_WORKER and ignores what the worker still
 * replies to them. */
void slot_give_up_calls(struct koda_slot *slot);

/* Fill in a call and queue it. On -1 with *err set nothing is queued. */
int slot_submit(struct koda_slot *slot, const struct koda_op *op, struct call *c,
    struct koda_error *err);

/* Queue a request of the host itself. Consumes *request, whose id has to be slot->next_id. */
void slot_submit_ours(struct koda_slot *slot, struct packed *request, unsigned timeout_ms,
    struct call *c);

/* Pack such a request with the next id. On 0 the caller owns *ret. Returns -1 with *err set if memory
 * is short. */
int slot_pack_ours(struct koda_slot *slot, Koda__Request *req, struct packed *ret,
    struct koda_error *err);
/* Queue such a request, which is consumed, and wait for the reply, which take() takes over. Returns
 * 0, or -1 with *err set. */
int slot_ask_ours(struct koda_slot *slot, struct packed *request, unsigned timeout_ms,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err), void *data,
    struct koda_error *err);

/* Replace a healthy worker: the next call starts another one. No call may be under way. */
void slot_renew(struct koda_slot *slot);

/* Wait until c is CALL_DONE. */
void slot_run(struct koda_slot *slot, struct call *c);

void slot_advance(struct koda_slot *slot);
/* Check deadlines, then slot_advance. */
void slot_tick(struct koda_slot *slot);
/* Watch what the slot waits for. Returns the time (ns) of its next tick; UINT64_MAX: none. */
uint64_t slot_watch(struct koda_slot *slot);
/* The slot's state changed outside of a turn of the loop: watch what it waits for now. */
void slot_rearm(struct koda_slot *slot);

/* Ask for approval of the calls that need it and were not asked about yet. Runs callbacks, so no
 * function up the stack may be in the middle of a change to the slot. */
void slot_ask(struct koda_slot *slot);

#endif
