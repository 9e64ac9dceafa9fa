/* SPDX-License-Identifier: Apache-2.0 */
#include "host/workspace/keeping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/draft/history.h"
#include "host/draft/history_live.h"
#include "host/draft/history_log.h"
#include "host/draft/history_now.h"
#include "host/draft/history_size.h"
#include "host/draft/history_trim.h"
#include "host/machine/state.h"
#include "host/slot/slot.h"

/* Of the bound: so much more makes the session count again what there is; an entry that has so much is
 * ended, so that older changes of a long session can go. */
#define STEP_PART  32
#define ENTRY_PART 4

struct files_history {
	struct history entry;
	bool failed;            /* it is not tried again in this session */
	uint64_t kept, counted; /* bytes; counted: those in the total */
	bool full;
};

static void
say_off(struct koda_session *ses, const struct koda_error *why)
{
	if (!ses->said_history)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "what file operations of this session change cannot be taken back, because there is "
		    "no place for the history: %s",
		    why->message);
	ses->said_history = true;
}

/* ---- the bound ---- */

static struct history_bound
bound_of(const struct koda_session *ses)
{
	return (
	    struct history_bound){ ses->history_bytes != 0 ? ses->history_bytes : HISTORY_BYTES_MAX,
		HISTORY_DAYS_MAX };
}

/* The history has so many bytes more. Returns how many it has in all. */
static uint64_t
count_in(struct koda_session *ses, uint64_t bytes)
{
	const struct files_history *k = ses->keeping;
	const bool writes = k != NULL && k->entry.fd >= 0;
	const struct history_bound bound = bound_of(ses);
	const struct history_own own = { writes ? k->entry.id : NULL, writes ? k->kept : 0 };
	struct history_trimmed gone;

	/* What cannot be counted now is counted within an hour. */
	history_grown(ses->state, bytes, &bound, &own, &gone);
	if (gone.entries > 0)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "the oldest %zu entries of the history were removed, with %llu MiB: it may have "
		    "%llu MiB and go back %u days",
		    gone.entries, (unsigned long long)(gone.bytes >> 20),
		    (unsigned long long)(bound.bytes >> 20), bound.days);
	return gone.left;
}

void
keeping_grown(struct koda_slot *slot, uint64_t bytes)
{
	struct files_history *k = slot->ses->keeping;
	const uint64_t max = bound_of(slot->ses).bytes;
	uint64_t all;

	if (k == NULL || k->entry.fd < 0)
		return;
	k->kept += bytes < max ? bytes : max;
	if (k->kept - k->counted < max / STEP_PART)
		return;
	all = count_in(slot->ses, k->kept - k->counted);
	k->counted = k->kept;
	k->full = all > max || k->kept > max / ENTRY_PART;
}

/* ---- making it ---- */

static int
begin(struct files_history *k, struct koda_session *ses, struct koda_error *err)
{
	struct state state;
	int r;

	if (ses->state == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0, "set HOME or XDG_STATE_HOME");
	if (state_hold(&state, ses->state, err) <= 0)
		return -1;
	/* What a killed session left, or the bound of another session, may be too much. */
	count_in(ses, 0);
	r = history_make(ses->state, ses->root, NULL, &k->entry, err);
	if (r == 0)
		history_live_set(ses->state, &k->entry);
	/* Now that there is an entry, no other process removes the directory. */
	state_let_go(&state, ses->state);
	return r;
}

bool
keeping_is_wanted(const struct koda_session *ses)
{
	return !ses->no_history && ses->held == NULL && ses->recovering == NULL &&
	    ses->mode != KODA_PLAN;
}

int
keeping_fd(const struct koda_slot *slot)
{
	struct koda_session *ses = slot->ses;
	struct koda_error why;

	if (!keeping_is_wanted(ses) || koda_policy_get(slot->policy)->trust == KODA_TRUST_FORBID)
		return -1;
	if (ses->keeping == NULL) {
		ses->keeping = calloc(1, sizeof(*ses->keeping));
		if (ses->keeping == NULL)
			return -1;
		ses->keeping->entry = HISTORY_CLOSED;
	}
	if (ses->keeping->entry.fd < 0 && !ses->keeping->failed &&
	    begin(ses->keeping, ses, &why) < 0) {
		ses->keeping->failed = true;
		say_off(ses, &why);
	}
	return ses->keeping->entry.fd;
}

/* ---- ending it ---- */

void
keeping_settled(struct koda_session *ses, struct history *h, uint64_t counted)
{
	const bool any = history_log_is_any(h);
	const uint64_t bytes = any ? history_size(h->fd, true) : 0;
	char id[NAMED_ID_MAX + 1];

	memcpy(id, h->id, sizeof(id));
	if (!any)
		history_remove(ses->state, h, NULL);
	history_close(h);
	history_live_clear(ses->state, ses->root, id);
	if (bytes > counted)
		count_in(ses, bytes - counted);
}

static void
finish(struct koda_session *ses)
{
	struct files_history *k = ses->keeping;
	struct history entry = k->entry;
	struct state state;

	if (k->entry.fd < 0)
		return;
	k->entry = HISTORY_CLOSED;
	state_look(&state, ses->state, NULL);
	/* Otherwise the next session has to finish what a worker left in the middle. */
	if (!ses->unsettled) {
		history_now_drop(&entry);
		keeping_settled(ses, &entry, k->counted);
	}
	history_close(&entry);
	state_let_go(&state, ses->state);
	k->kept = k->counted = 0;
	k->full = false;
}

void
keeping_end(struct koda_session *ses)
{
	if (ses->keeping == NULL)
		return;
	finish(ses);
	free(ses->keeping);
	ses->keeping = NULL;
}

void
keeping_abandon(struct koda_session *ses)
{
	if (ses->keeping == NULL)
		return;
	history_close(&ses->keeping->entry);
	free(ses->keeping);
	ses->keeping = NULL;
}

bool
keeping_is(const struct koda_session *ses, const char *id)
{
	return ses->keeping != NULL && ses->keeping->entry.fd >= 0 &&
	    strcmp(ses->keeping->entry.id, id) == 0;
}

int
keeping_turn_over(struct koda_session *ses, struct koda_error *err)
{
	for (const struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		if (slot->n_calls > 0)
			return err_set(err, KODA_CONFLICT, 0,
			    "file operations of this session are under way: wait until they are done");
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		slot_renew(slot);
	finish(ses);
	return 0;
}

void
keeping_turn_over_full(struct koda_session *ses)
{
	if (ses->keeping != NULL && ses->keeping->full)
		keeping_turn_over(ses, NULL);
}
