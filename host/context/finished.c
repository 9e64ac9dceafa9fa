#include "host/context/finished.h"

#include "host/context/context.h"

void
finished_add(struct koda_session *ses, struct call *c)
{
	if (c->done == NULL)
		return;
	c->slot = NULL;
	c->next = NULL;
	if (ses->done_tail != NULL)
		ses->done_tail->next = c;
	else
		ses->done_head = c;
	ses->done_tail = c;
	/* The call may have finished inside a synchronous call: wake up the loop to run its
	 * callback. */
	loop_wake(&ses->loop);
}

struct call *
finished_take(struct koda_session *ses)
{
	struct call *c = ses->done_head;

	if (c == NULL)
		return NULL;
	ses->done_head = c->next;
	if (ses->done_head == NULL)
		ses->done_tail = NULL;
	return c;
}

void
finished_forget(struct koda_session *ses, const void *data, koda_done_fn *instead)
{
	for (struct call *c = ses->done_head; data != NULL && c != NULL; c = c->next)
		if (c->data == data)
			c->done = instead;
}
