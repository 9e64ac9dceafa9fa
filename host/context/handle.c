#include "host/context/handle.h"

#include <stdint.h>

#include "host/session/session.h"
#include "shared/base/clock.h"

#define SLICE_MS 1000 /* how long a wait without a limit sleeps at a time */

void
handle_hold(struct handle *handle)
{
	handle->held++;
}

void
handle_let_go(struct handle *handle)
{
	if (--handle->held == 0 && handle->freed)
		handle->destroy(handle);
}

bool
handle_postpone(struct handle *handle)
{
	/* The session of a handle that is over may be freed already, and no library code still uses
	 * such a handle. */
	if (handle->over || !handle->ses->in_event)
		return false;
	if (!handle->is_unwanted) {
		handle->is_unwanted = true;
		handle->unwanted = handle->ses->unwanted;
		handle->ses->unwanted = handle;
	}
	return true;
}

void
handle_over(struct handle *handle, bool to_be_told)
{
	struct koda_session *ses = handle->ses;
	struct handle **end = &ses->over;

	handle->over = true;
	ses->n_under_way--;
	if (!to_be_told || handle->is_unwanted)
		return;
	handle->in_line = true;
	handle->next = NULL;
	while (*end != NULL)
		end = &(*end)->next;
	*end = handle;
	loop_wake(&ses->loop);
}

static void
forget_over(struct handle *handle)
{
	struct handle **at;

	if (!handle->in_line)
		return;
	for (at = &handle->ses->over; *at != handle;)
		at = &(*at)->next;
	*at = handle->next;
	handle->in_line = false;
}

void
handle_tell_over(struct koda_session *ses)
{
	struct handle *h;

	while ((h = ses->over) != NULL) {
		forget_over(h);
		h->tell(h); /* which may free this handle, or others in the list */
	}
}

void
handle_forget_over(struct koda_session *ses)
{
	while (ses->over != NULL)
		forget_over(ses->over);
}

void
handle_give_up_unwanted(struct koda_session *ses)
{
	struct handle *h;

	while ((h = ses->unwanted) != NULL) {
		ses->unwanted = h->unwanted;
		h->is_unwanted = false;
		h->give_up(h);
	}
}

void
handle_free(struct handle *handle)
{
	forget_over(handle);
	handle->freed = true;
	if (handle->held == 0)
		handle->destroy(handle);
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
		    session_turn(handle->ses, timeout_ms == 0 ? 0 : ms, err) < 0)
			return -1;
		if (!handle->over && timeout_ms >= 0 && monotonic_ns() >= until)
			return 0;
	}
	return 1;
}

int
handle_wait(struct handle *handle, int timeout_ms, struct koda_error *err)
{
	int r;

	handle_hold(handle); /* a callback may free it meanwhile */
	r = wait_for(handle, timeout_ms, err);
	handle_let_go(handle);
	return r;
}
