/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of the history that the file operations of a session go to: made when its first worker
 * starts, used by all its slots that work in the project itself, and removed again if nothing was
 * changed. A worker can only write into a directory that it was sealed with, so it cannot be made
 * later. An entry that has too much is ended, and the next one begun, when no call is under way.
 */
#ifndef KODA_HOST_WORKSPACE_KEEPING_H
#define KODA_HOST_WORKSPACE_KEEPING_H

#include "host/draft/history_entry.h"
#include "host/slot/state.h"

/* Do file operations of this session go to the history, if there is a place for it? */
bool keeping_is_wanted(const struct koda_session *ses);
/* Returns the descriptor of the entry's directory for a worker of that slot; -1: the slot changes
 * nothing, the session wants no history, or there is no place for it, which is reported once. */
int keeping_fd(const struct koda_slot *slot);

/* Do the file operations of this session go to that entry? */
bool keeping_is(const struct koda_session *ses, const char *id);
/* End the entry, so that it can be taken back: workers start again, with another one. Returns 0, or -1
 * with *err set: KODA_CONFLICT if calls are under way. */
int keeping_turn_over(struct koda_session *ses, struct koda_error *err);

/* A change of that slot has made the entry larger: is it, or is the history, above its bound? */
void keeping_grown(struct koda_slot *slot, uint64_t bytes);
/* If it was, end the entry, unless calls are under way. */
void keeping_turn_over_full(struct koda_session *ses);
/* Nothing is left to do in an entry of this root, which is locked, and whose session is over: it is closed,
 * and removed if nothing was changed. What is above `counted` bytes is counted now. */
void keeping_settled(struct koda_session *ses, struct history *h, uint64_t counted);

/* The session closes, and its workers have ended. Oldest entries go if there is too much. */
void keeping_end(struct koda_session *ses);
/* In a forked child: forget it, it is the parent's. */
void keeping_abandon(struct koda_session *ses);

#endif
