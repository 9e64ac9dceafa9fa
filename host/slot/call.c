/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/slot/call_question.h"

static void
call_append(struct call *c)
{
	struct koda_slot *slot = c->slot;

	c->next = NULL;
	c->prev = slot->tail;
	if (slot->tail != NULL)
		slot->tail->next = c;
	else
		slot->head = c;
	slot->tail = c;
	slot->n_calls++;
}

static void
call_remove(struct call *c)
{
	struct koda_slot *slot = c->slot;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		slot->head = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	else
		slot->tail = c->prev;
	c->prev = c->next = NULL;
	slot->n_calls--;
}

void
call_set_state(struct call *c, enum call_state state)
{
	struct koda_slot *slot = c->slot;

	slot->n_queued -= c->state == CALL_QUEUED;
	slot->n_recovering -= c->state == CALL_RECOVER || c->state == CALL_RECOVERING;
	c->state = state;
	slot->n_queued += c->state == CALL_QUEUED;
	slot->n_recovering += c->state == CALL_RECOVER || c->state == CALL_RECOVERING;
}

bool
call_changes_something(const struct call *c)
{
	return request_is_mutation(c->kind) && !c->preview;
}

void
call_queue(struct koda_slot *slot, struct call *c)
{
	c->slot = slot;
	c->state = CALL_DONE; /* a state that the slot does not count */
	call_set_state(c, CALL_QUEUED);
	call_append(c);
}

void
call_queue_again(struct call *c)
{
	call_remove(c);
	call_set_state(c, CALL_QUEUED);
	call_append(c);
}

void
call_done(struct call *c)
{
	packed_done(&c->request);
	packed_done(&c->page);
	packed_done(&c->prepared);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	call_question_done(c);
	koda_result_done(&c->result);
}

/* Runs the callback of an asynchronous call, if it is to be told, and frees the call. */
static void
call_deliver(struct finished *f, bool tell)
{
	struct call *c = (struct call *)f;

	if (tell)
		c->done(c->data, &c->result, c->err.code == KODA_OK ? NULL : &c->err);
	call_done(c);
	free(c);
}

static void
tell_nobody(void *data, const struct koda_result *result, const struct koda_error *err)
{
}

static int
take_nothing(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	return 0;
}

void
call_forget(struct koda_slot *slot, const void *data)
{
	for (struct call *c = slot->head; c != NULL; c = c->next) {
		if (c->done == NULL || c->data != data)
			continue;
		c->done = tell_nobody;
		if (c->take != NULL)
			c->take = take_nothing;
	}
	for (struct finished *f = slot->ses->finished; f != NULL; f = f->next)
		if (f->deliver == call_deliver && ((struct call *)f)->data == data)
			((struct call *)f)->done = tell_nobody;
}

void
call_finish(struct call *c, const struct koda_error *err)
{
	struct koda_slot *slot = c->slot;

	slot->n_unasked -= c->unasked;
	c->unasked = false;
	call_question_done(c);
	call_set_state(c, CALL_DONE);
	call_remove(c);
	if (err != NULL) {
		c->err = *err;
		koda_result_done(&c->result);
		if (err->code == KODA_POLICY_DENIED || err->code == KODA_NOT_APPROVED)
			slot->ses->stats.refusals++;
		if ((err->code == KODA_UNKNOWN || err->code == KODA_WORKER) &&
		    call_changes_something(c))
			slot->ses->unsettled = true;
	}
	if (c->done == NULL)
		return; /* a synchronous call stays with its caller */
	c->slot = NULL;
	c->finished.deliver = call_deliver;
	finished_add(slot->ses, &c->finished);
}

void
call_fail(struct call *c, enum koda_code code, int errnum, const char *fmt, ...)
{
	struct koda_error err;
	char text[KODA_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&err, code, errnum, "%s", text);
	call_finish(c, &err);
}
