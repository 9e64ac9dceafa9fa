/* SPDX-License-Identifier: Apache-2.0 */
#include "host/context/entry.h"

#include <poll.h>

#include "host/approve/asked.h"
#include "host/context/handle.h"

int
session_check(const struct koda_session *ses, struct koda_error *err)
{
	if (*ses->here != 1)
		return err_set(err, KODA_INTERNAL, 0,
		    "this session belongs to the process that opened it, not to its forked child");
	if (ses->closing)
		return err_set(err, KODA_INTERNAL, 0, "this session is being closed");
	/* The event callback runs in the middle of the operation that it reports. */
	if (ses->in_event)
		return err_set(err, KODA_INTERNAL, 0, "called from inside the event callback");
	if (ses->in_wait)
		return err_set(err, KODA_INTERNAL, 0, "called from inside the wait callback");
	return 0;
}

struct asked **
session_postpones(struct koda_session *ses)
{
	/* The event callback runs in the middle of the operation that it reports. */
	return *ses->here == 1 && ses->in_event ? &ses->answers : NULL;
}

bool
session_waits(const struct koda_session *ses)
{
	return ses->acquiring && ses->wait != NULL;
}

int
session_poll(struct koda_session *ses, struct pollfd *fds, size_t n, int timeout_ms)
{
	if (!session_waits(ses))
		return poll(fds, n, timeout_ms);
	if (!ses->given_up) {
		ses->in_wait = true;
		ses->given_up = ses->wait(ses->data, fds, n, timeout_ms) < 0;
		ses->in_wait = false;
		ses->given_up |= ses->closing;
	}
	/* Since the callback checked the descriptors, it may have spent a long time on other
	 * work. */
	return ses->given_up ? -1 : poll(fds, n, 0);
}

void
session_enter(struct koda_session *ses)
{
	ses->depth++;
}

bool
session_leave(struct koda_session *ses)
{
	if (ses->depth == 1) {
		handle_give_up_unwanted(ses);
		asked_act_on(&ses->answers);
	}
	return --ses->depth == 0 && ses->on_left(ses);
}
