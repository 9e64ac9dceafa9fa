/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A separate session without commands for a review: its worker holds directories that no agent can
 * name, a draft and an entry of the history. It lists what is in the draft, and swaps what is held
 * with what is in the project, under the policy of the session that it was made for. It uses nothing
 * of that session later, which may be closed first.
 */
#ifndef KODA_HOST_REVIEW_HELD_H
#define KODA_HOST_REVIEW_HELD_H

#include "host/draft/held.h"
#include "proto/worker.pb-c.h"

struct koda_session;

/* How such a session is opened: taken from the one that the review is for. */
struct held_like {
	struct koda_policy *policy; /* a reference */
	char *root, *state, *helpers;
	int mode;
	void (*event)(void *data, enum koda_event_kind kind, const char *text);
	koda_wait_fn *wait;
	void *data;
};

/* Returns 0, or -1 with *err set: there has to be a state directory. */
int held_like(const struct koda_session *ses, struct held_like *ret, struct koda_error *err);
void held_like_done(struct held_like *like);

struct holder {
	struct held_seal seal;
	struct koda_session *ses;
	struct koda_slot *slot;
};

/* Start one. The draft and the descriptor stay the caller's, and have to live as long. On -1 with *err
 * set there is nothing to close. */
int held_open(struct holder *h, const struct held_like *like, const struct draft *draft,
    int history_fd, struct koda_error *err);
/* Accepts one that was never opened. */
void held_close(struct holder *h);

/*
 * Ask the worker, and wait. The requests of a review may be asked again at any time, so the next
 * worker is asked when one died. take() gets the reply, which is untrusted. Returns 0, or -1 with *err
 * set.
 */
int held_ask(struct holder *h, Koda__Request *req,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err), void *data,
    struct koda_error *err);

#endif
