#include "host/slot/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "host/context/context.h"
#include "host/context/finished.h"

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

static void
let_approval_go(struct call *c)
{
	if (c->approval_done != NULL)
		c->approval_done(c);
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
	let_approval_go(c);
	koda_result_done(&c->result);
}

void
call_finish(struct call *c, const struct koda_error *err)
{
	struct koda_slot *slot = c->slot;

	slot->n_unasked -= c->unasked;
	c->unasked = false;
	let_approval_go(c);
	call_set_state(c, CALL_DONE);
	call_remove(c);
	if (err != NULL) {
		c->err = *err;
		koda_result_done(&c->result);
		if (err->code == KODA_POLICY_DENIED || err->code == KODA_NOT_APPROVED)
			slot->ses->stats.refusals++;
	}
	finished_add(slot->ses, c);
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
