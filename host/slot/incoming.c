/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/incoming.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/slot/call.h"
#include "host/slot/wreck.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

static int
on_progress(struct call *c, const Koda__Reply *reply, const uint8_t *frame, size_t len,
    struct koda_error *err)
{
	if (reply->result_case == KODA__REPLY__RESULT_VERDICT) {
		/* The worker did not make the change after all and cleans up next: a successor
		 * would find no trace of it. */
		if (c->state == CALL_SENT && c->prepared.len > 0 &&
		    reply->verdict->happened == KODA__HAPPENED__DID_NOT_HAPPEN) {
			packed_done(&c->prepared);
			c->committed = false;
			return 0;
		}
		if (c->state != CALL_RECOVERING)
			return err_set(err, KODA_PROTOCOL, 0, "an unexpected Verdict");
		return wreck_keep_verdict(c, reply->verdict, err);
	}
	if (c->state != CALL_SENT || !call_changes_something(c))
		return err_set(err, KODA_PROTOCOL, 0, "an unexpected Prepared or Committed");
	if (reply->result_case == KODA__REPLY__RESULT_COMMITTED) {
		if (c->kind != KODA_OP_REMOVE || c->prepared.len == 0 || c->committed)
			return err_set(err, KODA_PROTOCOL, 0, "Committed out of order");
		c->committed = true;
		return 0;
	}
	/* The worker sends Prepared again if another process changed the place first and the worker
	 * had to start over; the last one counts. */
	if (c->committed || ++c->prepares > PREPARED_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "too many Prepared for one request");
	if (reply_check_prepared(c->kind, reply->prepared, err) < 0)
		return -1;
	packed_done(&c->prepared);
	c->prepared.data = malloc(len);
	if (c->prepared.data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "Prepared");
	memcpy(c->prepared.data, frame, len);
	c->prepared.len = len;
	return 0;
}

/* Queues the request for the rest of a listing, or of content that comes in pieces. */
static int
ask_next_page(struct call *c, struct koda_error *err)
{
	struct koda_slot *slot = c->slot;

	packed_done(&c->page);
	if (monotonic_ns() >= c->deadline)
		return err_set(err, KODA_TIMEOUT, 0, "the request was not finished within %u ms",
		    c->timeout_ms);
	c->id = slot->next_id++;
	if (request_again(&c->request, REQUEST_NEXT_PAGE, c->id, &c->result, &c->page, err) < 0)
		return -1;
	call_queue_again(c);
	return 0;
}

/* The approval callback does not run here: it may call the library, and this runs in the middle of
 * handling the worker's reply. */
static void
set_asking(struct call *c)
{
	call_set_state(c, CALL_ASKING);
	c->unasked = true;
	c->slot->n_unasked++;
}

static int
on_recovery(struct call *c, const Koda__Reply *reply, struct koda_error *err)
{
	/* An error: the successor is not allowed to look at the place, or cannot (any more). */
	if (reply->result_case != KODA__REPLY__RESULT_ERROR) {
		if (reply->result_case != KODA__REPLY__RESULT_RECOVERED)
			return err_set(err, KODA_PROTOCOL, 0,
			    "the reply to Recover has the wrong type");
		if (wreck_keep_verdict(c, reply->recovered, err) < 0)
			return -1;
	}
	wreck_settle(c);
	return 0;
}

/* Once a session; which changes, is in the history. */
static void
say_unkept(struct koda_session *ses, const Koda__Outcome *m)
{
	char why[200];

	if (ses->said_history)
		return;
	ses->said_history = true;
	bytes_show(why, sizeof(why), (const char *)m->unkept.data, m->unkept.len);
	session_event(ses, KODA_EVENT_DEGRADED,
	    "a change cannot be taken back, and there may be more of them: %s", why);
}

static void
take_history(struct koda_slot *slot, const Koda__Outcome *m)
{
	if (m->has_unkept)
		say_unkept(slot->ses, m);
	if (m->has_kept)
		slot->client->grown(slot, m->kept);
}

static int
on_final(struct call *c, const Koda__Reply *reply, int fd_, struct koda_error *err)
{
	struct koda_slot *slot = c->slot;
	cleanup_close int fd = fd_;
	struct koda_error why = { 0 };
	int r;

	slot->answered = true;
	if (c->state == CALL_RECOVERING)
		return on_recovery(c, reply, err);
	if (c->take != NULL && reply->result_case != KODA__REPLY__RESULT_ERROR) {
		if (c->take(c->take_data, reply, err) < 0)
			return -1;
		call_finish(c, NULL);
		return 0;
	}
	r = reply_take(c->take != NULL ? KODA_OP_PING : c->kind, reply, take_fd(&fd), &slot->arena,
	    &c->result, &why);
	if (r >= 0 && c->max > 0 && c->result.len > c->max)
		r = err_set(&why, KODA_PROTOCOL, 0, "more content than was requested");
	if (r >= 0 && c->preview)
		r = reply_check_preview(c->kind, &c->result, &why);
	if (r < 0 && why.code == KODA_PROTOCOL) {
		*err = why;
		return -1;
	}
	if (r == 1 && c->max > 0 && c->result.len == c->max)
		r = 0; /* max 0 in the next request would mean everything */
	if (r == 1 && (r = ask_next_page(c, &why)) == 0)
		return 0;
	if (r >= 0 && reply->result_case == KODA__REPLY__RESULT_OUTCOME)
		take_history(slot, reply->outcome);
	if (r < 0)
		call_finish(c, &why);
	else if (c->preview)
		set_asking(c);
	else
		call_finish(c, NULL);
	return 0;
}

int
incoming_take(struct call *c, const Koda__Reply *reply, int fd_, const uint8_t *frame, size_t len,
    struct koda_error *err)
{
	cleanup_close int fd = fd_;

	switch ((int)reply->result_case) {
	case KODA__REPLY__RESULT__NOT_SET:
		return err_set(err, KODA_PROTOCOL, 0, "an empty reply");
	case KODA__REPLY__RESULT_PREPARED:
	case KODA__REPLY__RESULT_COMMITTED:
	case KODA__REPLY__RESULT_VERDICT:
		return on_progress(c, reply, frame, len, err);
	default:
		return on_final(c, reply, take_fd(&fd), err);
	}
}
