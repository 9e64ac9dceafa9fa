#include "host/workspace/keeping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/draft/history.h"
#include "host/draft/history_log.h"
#include "host/draft/history_trim.h"
#include "host/machine/state.h"
#include "host/slot/slot.h"

struct files_history {
	struct history entry;
	bool failed; /* it is not tried again in this session */
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
	r = history_make(ses->state, ses->root, NULL, &k->entry, err);
	/* Now that there is an entry, no other process removes the directory. */
	state_let_go(&state, ses->state);
	return r;
}

int
keeping_fd(const struct koda_slot *slot)
{
	struct koda_session *ses = slot->ses;
	struct koda_error why;

	if (ses->no_history || ses->held != NULL || ses->mode == KODA_PLAN ||
	    koda_policy_get(slot->policy)->trust == KODA_TRUST_FORBID)
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

static void
finish(struct koda_session *ses)
{
	struct files_history *k = ses->keeping;
	const bool any = k->entry.fd >= 0 && history_log_is_any(&k->entry);
	struct history_trimmed gone;
	struct state state;

	if (k->entry.fd < 0)
		return;
	state_look(&state, ses->state, NULL);
	if (!any)
		history_remove(ses->state, &k->entry, NULL);
	history_close(&k->entry);
	if (any && history_trim(ses->state, HISTORY_BYTES_MAX, HISTORY_AGE_MAX_NS, &gone) == 0 &&
	    gone.entries > 0)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "the oldest %zu entries of the history were removed, with %llu MiB: it may have "
		    "%llu MiB and go back %d days",
		    gone.entries, (unsigned long long)(gone.bytes >> 20),
		    (unsigned long long)(HISTORY_BYTES_MAX >> 20), HISTORY_DAYS_MAX);
	state_let_go(&state, ses->state);
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
