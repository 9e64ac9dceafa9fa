/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/pool.h"

#include "host/context/entry.h"
#include "host/context/turn.h"
#include "host/review/settle.h"
#include "host/workspace/ending.h"
#include "host/workspace/keeping.h"
#include "host/workspace/workspace.h"

static void
unlink_slot(struct koda_session *ses, struct koda_slot *slot)
{
	if (slot->prev != NULL)
		slot->prev->next = slot->next;
	else
		ses->slots = slot->next;
	if (slot->next != NULL)
		slot->next->prev = slot->prev;
	if (slot->acquired)
		ses->n_acquired--;
	else
		ses->n_idle--;
}

static void
drop_slot(struct koda_session *ses, struct koda_slot *slot)
{
	unlink_slot(ses, slot);
	workspace_free(slot);
}

void
pool_settle(struct koda_session *ses)
{
	struct koda_slot *slot, *next;

	/* Freeing a slot may report events. */
	ses->depth++;
	for (slot = ses->n_dropped > 0 ? ses->slots : NULL; slot != NULL; slot = slot->next)
		workspace_settle(slot);
	for (slot = ses->n_doomed > 0 ? ses->slots : NULL; slot != NULL; slot = next) {
		next = slot->next;
		if (!slot->doomed)
			continue;
		ses->n_doomed--;
		drop_slot(ses, slot);
	}
	keeping_turn_over_full(ses);
	ses->depth--;
}

void
pool_close(struct koda_session *ses)
{
	while (ses->slots != NULL)
		drop_slot(ses, ses->slots);
}

void
pool_abandon(struct koda_session *ses)
{
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		workspace_abandon(slot);
}

/* Slots are matched by the whole policy; root and mode are the same for the session. */
static struct koda_slot *
find_idle(struct koda_session *ses, const struct koda_policy *policy)
{
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		if (!slot->acquired && !slot->doomed && koda_policy_equal(slot->policy, policy))
			return slot;
	return NULL;
}

static void
mark_acquired(struct koda_session *ses, struct koda_slot *slot, bool acquired)
{
	if (slot->acquired == acquired)
		return;
	slot->acquired = acquired;
	ses->n_acquired += acquired ? 1 : -1;
	ses->n_idle += acquired ? -1 : 1;
}

static struct koda_slot *
add_slot(struct koda_session *ses, struct koda_policy *policy, const char *draft,
    struct koda_error *err)
{
	struct koda_slot *slot = workspace_new(ses, policy, draft, err);

	if (slot == NULL)
		return NULL;
	slot->next = ses->slots;
	if (ses->slots != NULL)
		ses->slots->prev = slot;
	ses->slots = slot;
	ses->n_idle++;
	return slot;
}

/* On a new slot this starts the worker; on an idle one it notices that the worker has died and
 * replaces it. */
static int
make_ready(struct koda_session *ses, struct koda_slot *slot, struct koda_error *err)
{
	mark_acquired(ses, slot, true);
	return workspace_make_ready(slot, err);
}

struct koda_slot *
koda_slot_open(struct koda_session *ses, const struct koda_slot_options *o, struct koda_error *err)
{
	const bool drafts = o->workspace == KODA_WORKSPACE_DRAFT;
	const char *draft = !drafts ? NULL : o->draft != NULL ? o->draft : "";
	struct koda_policy *policy;
	struct koda_slot *slot;
	int r;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return NULL;
	if (!drafts && (o->workspace != KODA_WORKSPACE_DIRECT || o->draft != NULL)) {
		err_set(err, KODA_INVALID, 0,
		    "the slot's workspace is not one that a slot has (a copy is a root of its own: "
		    "koda_copy_open), or a draft is named for a slot without one");
		return NULL;
	}
	/* An embedder that never runs the loop must not accumulate the dead workers of released
	 * slots. */
	if (ses->leaving.n > 0)
		leaving_reap(&ses->leaving, 0);
	policy = o->policy == NULL ? koda_policy_ref(ses->policy)
				   : koda_policy_compose(ses->policy, o->policy, err);
	if (policy == NULL)
		return NULL;
	session_enter(ses);
	ses->acquiring = true;
	ses->given_up = false;
	settle_killed(ses);
	if (ses->n_acquired >= ses->max_slots) {
		err_set(err, KODA_INTERNAL, 0,
		    "all %u slots of this session are in use: release one first", ses->max_slots);
		slot = NULL;
	} else if (drafts || (slot = find_idle(ses, policy)) == NULL) {
		slot = add_slot(ses, policy, draft, err);
	}
	koda_policy_free(policy);
	r = slot == NULL ? -1 : make_ready(ses, slot, err);
	ses->acquiring = ses->given_up = false;
	if (session_leave(ses)) {
		if (r == 0)
			err_set(err, KODA_INTERNAL, 0,
			    "the session was closed in one of its callbacks");
		return NULL;
	}
	if (r < 0 && slot != NULL)
		drop_slot(ses, slot);
	return r < 0 ? NULL : slot;
}

struct koda_slot *
koda_slot_acquire(struct koda_session *ses, const struct koda_policy *child, struct koda_error *err)
{
	return koda_slot_open(ses, &(struct koda_slot_options){ .policy = child }, err);
}

void
koda_slot_release(struct koda_slot *slot)
{
	struct koda_session *ses;

	if (slot == NULL)
		return;
	ses = slot->ses;
	if (*ses->here != 1 || ses->closing || slot->doomed)
		return; /* closing frees the slot; in a forked child the worker is the parent's */
	/* A worker with calls under way is not reused, because its answers would have no caller. A
	 * sandbox is not reused either: the next user of the slot must not see what commands left
	 * in its private places. */
	if (slot->state != SLOT_UP || slot->n_calls > 0 || slot->n_searches > 0 ||
	    slot->commands != NULL || ses->n_idle >= ses->max_idle) {
		slot->doomed = true;
		ses->n_doomed++;
		session_enter(ses);
		session_leave(ses);
	} else
		mark_acquired(ses, slot, false);
}

int
koda_slot_end(struct koda_slot *slot, struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	int r;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return -1;
	session_enter(ses);
	r = ending_run(slot, true, err);
	session_leave(ses);
	return r;
}

/* ---- in a turn of the loop ---- */

static void
tick(struct koda_session *ses)
{
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		workspace_tick(slot);
}

static void
flush(struct koda_session *ses)
{
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		workspace_flush(slot);
}

static uint64_t
next_time(struct koda_session *ses)
{
	uint64_t first = UINT64_MAX, at;

	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		if ((at = workspace_next_time(slot)) < first)
			first = at;
	return first;
}

const struct ticker pool_ticker = { tick, flush, next_time };

/* ---- questions about a slot ---- */

void
koda_slot_enforcement(const struct koda_slot *slot, struct koda_enforcement *ret)
{
	*ret = slot->enforcement;
}

const struct koda_policy *
koda_slot_policy(const struct koda_slot *slot)
{
	return slot->policy;
}

int
koda_slot_pid(const struct koda_slot *slot)
{
	return slot->state == SLOT_STARTING || slot->state == SLOT_UP ? (int)slot->child.pid : -1;
}
