/* SPDX-License-Identifier: Apache-2.0 */
#include "host/context/finished.h"

#include "host/context/context.h"

void
finished_add(struct koda_session *ses, struct finished *f)
{
	f->next = NULL;
	if (ses->finished_last != NULL)
		ses->finished_last->next = f;
	else
		ses->finished = f;
	ses->finished_last = f;
	/* The call may have finished inside a synchronous call: wake up the loop to run its
	 * callback. */
	loop_wake(&ses->loop);
}

static struct finished *
take_first(struct koda_session *ses)
{
	struct finished *f = ses->finished;

	if (f == NULL)
		return NULL;
	ses->finished = f->next;
	if (ses->finished == NULL)
		ses->finished_last = NULL;
	return f;
}

/* Only the calls that are finished now: a callback that starts another call gets its turn, but does
 * not keep the loop from its other work. */
void
finished_deliver(struct koda_session *ses)
{
	const struct finished *last = ses->finished_last;
	struct finished *f;
	bool more = true;

	while (more && (f = take_first(ses)) != NULL) {
		more = f != last;
		ses->n_async--;
		f->deliver(f, true);
	}
}

void
finished_drop(struct koda_session *ses)
{
	struct finished *f;

	while ((f = take_first(ses)) != NULL)
		f->deliver(f, false);
}
