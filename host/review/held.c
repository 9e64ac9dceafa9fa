/* SPDX-License-Identifier: Apache-2.0 */
#include "host/review/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/context.h"
#include "host/policy/policy_api.h"
#include "host/slot/slot.h"

/* One request looks at or changes a page of names. */
#define STEP_MS 120000
/* Workers that may die over one request. */
#define TRIES 3

int
held_like(const struct koda_session *ses, struct held_like *ret, struct koda_error *err)
{
	*ret = (struct held_like){ .mode = (int)ses->mode,
		.event = ses->event,
		.wait = ses->wait,
		.data = ses->data };
	if (ses->state == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "there is no place for koda-sandbox's own directory: set HOME or XDG_STATE_HOME");
	ret->policy = koda_policy_ref(ses->policy);
	ret->root = strdup(ses->root);
	ret->state = strdup(ses->state);
	ret->helpers = strdup(ses->worker_path);
	if (ret->root == NULL || ret->state == NULL || ret->helpers == NULL) {
		held_like_done(ret);
		return err_set(err, KODA_INTERNAL, ENOMEM, "review");
	}
	*strrchr(ret->helpers, '/') = '\0';
	return 0;
}

void
held_like_done(struct held_like *like)
{
	koda_policy_free(like->policy);
	free(like->root);
	free(like->state);
	free(like->helpers);
	*like = (struct held_like){ 0 };
}

int
held_open(struct holder *h, const struct held_like *like, const struct draft *draft, int history_fd,
    struct koda_error *err)
{
	struct koda_session_options o = KODA_SESSION_OPTIONS_INIT;

	*h = (struct holder){ .seal = { draft, history_fd } };
	o.root = like->root;
	o.mode = (enum koda_mode)like->mode;
	o.policy = like->policy;
	o.event = like->event;
	o.wait = like->wait;
	o.data = like->data;
	o.helper_dir = like->helpers;
	o.no_history = true;
	h->ses = koda_session_open(&o, err);
	if (h->ses == NULL)
		return -1;
	h->ses->held = &h->seal;
	h->slot = koda_slot_acquire(h->ses, NULL, err);
	if (h->slot == NULL) {
		held_close(h);
		return -1;
	}
	/* What is asked is waited for as when a slot is acquired. */
	h->ses->acquiring = true;
	return 0;
}

void
held_close(struct holder *h)
{
	koda_session_close(h->ses);
	*h = (struct holder){ .seal.history_fd = -1 };
}

int
held_ask(struct holder *h, Koda__Request *req,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err), void *data,
    struct koda_error *err)
{
	for (unsigned i = 1;; i++) {
		struct packed packed;

		if (slot_pack_ours(h->slot, req, &packed, err) < 0)
			return -1;
		if (slot_ask_ours(h->slot, &packed, STEP_MS, take, data, err) == 0)
			return 0;
		if (i == TRIES || (err->code != KODA_WORKER && err->code != KODA_UNKNOWN))
			return -1;
	}
}
