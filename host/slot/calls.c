/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions for operations on a slot: koda_call() and koda_call_async(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/entry.h"
#include "host/slot/slot.h"

int
koda_call(struct koda_slot *slot, const struct koda_op *op, struct koda_result *ret,
    struct koda_error *err)
{
	struct call c;

	memset(&c, 0, offsetof(struct call, err));
	c.err.code = KODA_OK;
	c.err.message[0] = '\0';
	memset(ret, 0, sizeof(*ret));
	ret->fd = -1;
	if (session_check(slot->ses, err) < 0 || slot_submit(slot, op, &c, err) < 0)
		return -1;
	session_enter(slot->ses);
	slot_run(slot, &c);
	if (slot->source.fd >= 0 || slot->n_calls > 0)
		slot_rearm(slot);
	session_leave(slot->ses);
	if (c.err.code != KODA_OK) {
		if (err != NULL)
			*err = c.err;
		call_done(&c);
		return -1;
	}
	*ret = c.result;
	c.result = (struct koda_result){ .fd = -1 };
	call_done(&c);
	return 0;
}

int
koda_call_async(struct koda_slot *slot, const struct koda_op *op, koda_done_fn *done, void *data,
    struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	struct call *c;

	if (session_check(ses, err) < 0)
		return -1;
	if (done == NULL)
		return err_set(err, KODA_INVALID, 0, "an asynchronous call needs a callback");
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "call");
	c->done = done;
	c->data = data;
	if (slot_submit(slot, op, c, err) < 0) {
		free(c);
		return -1;
	}
	ses->n_async++;
	session_enter(ses);
	/* An idle worker gets the call at once; for a busy one, more calls may come that can be
	 * sent together with it. */
	if (slot->n_calls == 1)
		slot_advance(slot);
	slot_rearm(slot);
	session_leave(ses);
	return 0;
}
