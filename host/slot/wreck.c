/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/wreck.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "host/context/context.h"
#include "host/slot/call.h"
#include "shared/base/bytes.h"

static void
wreck_forget(struct call *c)
{
	packed_done(&c->prepared);
	c->committed = c->has_verdict = c->has_digest_now = false;
	c->recoveries = c->prepares = 0;
}

/* Ends a mutation of which the host cannot find out any more whether it happened. */
static void
wreck_unknown(struct call *c)
{
	char now[2 * KODA_DIGEST_BYTES + 1] = "unknown",
					 after[2 * KODA_DIGEST_BYTES + 1] = "unknown";
	struct koda_result would = { .fd = -1 };
	const char *at;  /* the path that both digests belong to */
	char shown[360]; /* short enough to leave room for both digests in the message */
	struct koda_error err;

	if (c->has_digest_now)
		sodium_bin2hex(now, sizeof(now), c->digest_now, KODA_DIGEST_BYTES);
	if (c->prepared.len > 0 && reply_of_prepared(&c->prepared, c->kind, &would, NULL) == 0 &&
	    would.has_digest)
		sodium_bin2hex(after, sizeof(after), would.digest, KODA_DIGEST_BYTES);
	at = would.to != NULL ? would.to : would.path;
	if (at == NULL)
		snprintf(shown, sizeof(shown), "the file");
	else
		bytes_show(shown, sizeof(shown), at, strlen(at));
	err_set(&err, KODA_UNKNOWN, 0,
	    "the worker died during this change and the outcome is unknown: '%s' now has digest "
	    "%s, after the change it would be %s. Read the file and decide",
	    shown, now, after);
	if (at != NULL)
		err_about(&err, at, NULL);
	koda_result_done(&would);
	call_finish(c, &err);
}

/* The call certainly did not happen: queue it again, unless it killed too many workers or is out of
 * time. */
static void
wreck_undone(struct call *c)
{
	wreck_forget(c);
	if (c->timed_out) {
		call_fail(c, KODA_TIMEOUT, 0,
		    "the request was not finished within %u ms; nothing was changed",
		    c->timeout_ms);
	} else if (c->deaths >= CALL_DEATHS_MAX) {
		call_fail(c, KODA_WORKER, 0,
		    "the worker died %u times during this request; nothing was changed", c->deaths);
	} else {
		/* It keeps its place in the queue: calls are carried out in the order in which they
		 * were made. */
		call_set_state(c, CALL_QUEUED);
	}
}

static void
wreck_recovered(struct call *c)
{
	struct koda_error err;

	c->slot->ses->stats.recovered++;
	switch ((int)c->verdict.happened) {
	case KODA__HAPPENED__HAPPENED:
		if (reply_of_prepared(&c->prepared, c->kind, &c->result, &err) < 0) {
			call_finish(c, &err);
			return;
		}
		c->result.recovered = true;
		call_finish(c, NULL);
		break;
	case KODA__HAPPENED__DID_NOT_HAPPEN:
		wreck_undone(c);
		break;
	default:
		wreck_unknown(c);
	}
}

void
wreck_settle(struct call *c)
{
	if (c->has_verdict)
		wreck_recovered(c);
	else if (c->prepared.len > 0)
		wreck_unknown(c);
	else
		wreck_undone(c);
}

/* A worker that breaks the protocol may have acted without reporting it, and a worker that hangs in
 * the kernel may still act: the host neither repeats the mutations that it was working on nor
 * reports them as not done. */
static void
wreck_forsake(struct call *c, const char *why)
{
	call_fail(c, KODA_UNKNOWN, 0,
	    "%s during this change and the outcome is unknown: read the file and decide", why);
}

/* A call that the worker had. odd: why nothing that the worker did is known; NULL: it just died. */
static void
wreck_sort_sent(struct call *c, const char *odd)
{
	if (call_changes_something(c)) {
		if (odd != NULL)
			wreck_forsake(c, odd);
		else
			call_set_state(c, CALL_RECOVER);
		return;
	}
	/* Discard everything that came from a worker that broke the protocol, earlier pages too. */
	if (c->slot->broken) {
		packed_done(&c->page);
		koda_result_done(&c->result);
		c->id = c->request_id;
	}
	wreck_undone(c);
}

void
wreck_sort(struct koda_slot *slot, bool gone)
{
	const char *odd = slot->broken ? "the worker broke the protocol"
	    : gone                     ? NULL
				       : "the worker was killed but still hangs in the kernel";
	struct call *c, *next;
	bool found_culprit = false;

	for (c = slot->head; c != NULL; c = next) {
		next = c->next;
		if (c->state == CALL_SENT) {
			/* The worker works in order: it died at the first call without an
			 * answer. */
			c->deaths += !found_culprit;
			found_culprit = true;
			wreck_sort_sent(c, odd);
		} else if (c->state == CALL_RECOVERING) {
			/* Here too the worker died at the first call without an answer. It had not
			 * begun the others; giving them up would leave their temporary files
			 * behind. */
			c->recoveries += !found_culprit;
			found_culprit = true;
			call_set_state(c, CALL_RECOVER);
			if (c->recoveries >= CALL_RECOVER_MAX)
				wreck_settle(c);
		}
	}
}

int
wreck_keep_verdict(struct call *c, const Koda__Verdict *v, struct koda_error *err)
{
	if (v->has_digest_now && v->digest_now.len != KODA_DIGEST_BYTES)
		return err_set(err, KODA_PROTOCOL, 0, "a digest of the wrong length");
	if (c->has_verdict && c->verdict.happened != v->happened)
		return err_set(err, KODA_PROTOCOL, 0, "two Verdicts that contradict each other");
	if (v->happened == KODA__HAPPENED__HAPPENED && c->prepared.len == 0)
		return err_set(err, KODA_PROTOCOL, 0,
		    "a Verdict that an unprepared change happened");
	koda__verdict__init(&c->verdict);
	c->verdict.happened = v->happened;
	c->has_verdict = true;
	c->has_digest_now = v->has_digest_now;
	if (v->has_digest_now)
		memcpy(c->digest_now, v->digest_now.data, KODA_DIGEST_BYTES);
	return 0;
}

void
wreck_end_all(struct koda_slot *slot, const struct koda_error *err)
{
	while (slot->head != NULL) {
		struct call *c = slot->head;

		if (call_changes_something(c) && c->state != CALL_QUEUED && c->prepared.len > 0)
			wreck_unknown(c);
		else
			call_finish(c, err);
	}
}
