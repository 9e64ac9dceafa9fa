#include "host/context/turn.h"

#include "host/egress/egress.h"
#include "host/sandbox/sandbox.h"
#include "host/search/search.h"
#include "host/session/session.h"
#include "host/slot/calls.h"

/* Watches for what the slot waits for. Returns the time of its next tick. */
static uint64_t
watch_slot(struct koda_session *ses, struct koda_slot *slot)
{
	uint32_t events;
	uint64_t at;
	int fd;

	slot_wait_for(slot, &fd, &events, &at);
	loop_watch(&ses->loop, &slot->source, fd, events);
	return at;
}

void
session_rearm(struct koda_session *ses, struct koda_slot *slot)
{
	loop_wake_at(&ses->loop, watch_slot(ses, slot));
}

static void
turn_rearm_all(struct koda_session *ses)
{
	uint64_t first = ses->done_head != NULL || ses->over != NULL ? 0 : UINT64_MAX, at;

	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next) {
		if (slot->sandbox != NULL && (at = sandbox_next_time(slot->sandbox)) < first)
			first = at;
		if ((at = search_next_time(slot)) < first)
			first = at;
		if (slot->source.fd < 0 && slot->n_calls == 0)
			continue;
		if ((at = watch_slot(ses, slot)) < first)
			first = at;
	}
	if ((at = egress_next_time(ses)) < first)
		first = at;
	loop_set_time(&ses->loop, first);
}

/* Wait at most timeout_ms (-1: no limit) for an event, and do everything that can be done then. */
static void
turn_once(struct koda_session *ses, int timeout_ms)
{
	if (ses->loop.dispatching)
		return; /* called from one of its own callbacks */
	ses->loop.dispatching = true;
	session_enter(ses);
	loop_poll(&ses->loop, timeout_ms);
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next) {
		if (slot->sandbox != NULL)
			sandbox_tick(slot->sandbox);
		search_tick(slot);
		if (slot->n_calls > 0 || slot->state == SLOT_DYING) {
			slot_tick(slot);
			slot_ask(slot);
		}
	}
	egress_tick(ses);
	calls_deliver(ses);
	handle_tell_over(ses);
	/* The calls that callbacks have just queued are sent together. */
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		if (slot->n_queued > 0)
			slot_advance(slot);
	if (ses->leaving.n > 0)
		leaving_reap(&ses->leaving, 0);
	turn_rearm_all(ses);
	ses->loop.dispatching = false;
	session_leave(ses);
}

int
session_turn(struct koda_session *ses, int timeout_ms, struct koda_error *err)
{
	if (ses->loop.dispatching)
		return err_set(err, KODA_INVALID, 0, "waited for from inside a callback");
	turn_once(ses, timeout_ms);
	return 0;
}

void
turn_ready(void *session)
{
	turn_once(session, 0);
}

int
koda_session_fd(const struct koda_session *ses)
{
	return ses->loop.epoll_fd;
}

int
koda_session_dispatch(struct koda_session *ses, int timeout_ms, struct koda_error *err)
{
	int n;

	if (session_check(ses, err) < 0)
		return -1;
	if (ses->loop.ev != NULL)
		return err_set(err, KODA_INVALID, 0, "the loop is the caller's: run that");
	if (ses->loop.dispatching)
		return err_set(err, KODA_INVALID, 0, "dispatch from inside a callback of dispatch");
	if (ses->n_async + ses->n_under_way == 0 && ses->over == NULL && timeout_ms < 0)
		return 0;
	session_enter(ses);
	turn_once(ses, timeout_ms);
	n = (int)(ses->n_async + ses->n_under_way);
	return session_leave(ses) ? 0 : n;
}
