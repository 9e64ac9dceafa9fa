/* SPDX-License-Identifier: Apache-2.0 */
#include "host/context/turn.h"

#include "host/approve/asked.h"
#include "host/context/context.h"
#include "host/context/entry.h"
#include "host/context/finished.h"
#include "host/context/handle.h"
#include "shared/base/clock.h"

#define SLICE_MS 1000 /* how long a wait without a limit sleeps at a time */

void
turn_add(struct koda_session *ses, const struct ticker *t)
{
	ses->ticker[ses->n_tickers++] = t;
}

static void
rearm(struct koda_session *ses)
{
	uint64_t first = ses->finished != NULL || ses->over != NULL ? 0 : UINT64_MAX;

	for (size_t i = 0; i < ses->n_tickers; i++) {
		const uint64_t at = ses->ticker[i]->next_time(ses);

		if (at < first)
			first = at;
	}
	loop_set_time(&ses->loop, first);
}

void
turn_once(struct koda_session *ses, int timeout_ms)
{
	if (ses->loop.dispatching)
		return;
	ses->loop.dispatching = true;
	session_enter(ses);
	loop_poll(&ses->loop, timeout_ms);
	for (size_t i = 0; i < ses->n_tickers; i++)
		ses->ticker[i]->tick(ses);
	asked_act_on(&ses->answers);
	finished_deliver(ses);
	handle_tell_over(ses);
	for (size_t i = 0; i < ses->n_tickers; i++)
		if (ses->ticker[i]->flush != NULL)
			ses->ticker[i]->flush(ses);
	if (ses->leaving.n > 0)
		leaving_reap(&ses->leaving, 0);
	rearm(ses);
	ses->loop.dispatching = false;
	session_leave(ses);
}

static int
turn_wait(struct koda_session *ses, int timeout_ms, struct koda_error *err)
{
	if (ses->loop.dispatching)
		return err_set(err, KODA_INVALID, 0, "cannot wait from inside a callback");
	turn_once(ses, timeout_ms);
	return 0;
}

static int
wait_for(const struct handle *handle, int timeout_ms, struct koda_error *err)
{
	const uint64_t until =
	    timeout_ms < 0 ? UINT64_MAX : monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	while (!handle->over) {
		uint64_t now = timeout_ms <= 0 ? 0 : monotonic_ns();
		int ms = timeout_ms < 0 ? SLICE_MS
		    : now >= until      ? 0
					: (int)((until - now) / NS_PER_MS + 1);

		if (session_check(handle->ses, err) < 0 ||
		    turn_wait(handle->ses, timeout_ms == 0 ? 0 : ms, err) < 0)
			return -1;
		if (!handle->over && timeout_ms >= 0 && monotonic_ns() >= until)
			return 0;
	}
	return 1;
}

int
turn_until_over(struct handle *handle, int timeout_ms, struct koda_error *err)
{
	int r;

	handle_hold(handle); /* a callback may free it meanwhile */
	r = wait_for(handle, timeout_ms, err);
	handle_let_go(handle);
	return r;
}
