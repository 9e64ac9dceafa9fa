/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/protect_compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/protect/change.h"
#include "host/protect/neighbours.h"
#include "host/protect/protect_note.h"
#include "host/protect/protect_plan.h"
#include "host/protect/protect_scan.h"
#include "host/protect/watches.h"
#include "host/sandbox/sandbox_orders.h"
#include "host/slot/slot.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define COMPARE_TRIES 3

/* ---- the worker's changes ---- */

static void
note_unwatched(struct protect *p, int errnum)
{
	char text[WATCHES_TEXT_MAX];
	struct watches watches;

	if (p->said_unwatched)
		return;
	p->said_unwatched = true;
	watches_look(&watches);
	watches_sentence(&watches, errnum, text, sizeof(text));
	session_event(p->slot->ses, KODA_EVENT_DEGRADED, "%s", text);
}

/* A neighbour that planted it may have ended since, but was alive when the comparison began. */
static void
charge(struct protect *p, const Koda__Change *change)
{
	cleanup_free char *path = NULL;
	size_t neighbours;

	switch ((int)change->kind) {
	case KODA__CHANGE_KIND__CHANGE_ASIDE:
	case KODA__CHANGE_KIND__CHANGE_QUARANTINED:
	case KODA__CHANGE_KIND__CHANGE_DISARMED:
		break;
	default:
		return;
	}
	path = strndup((const char *)change->path.data, change->path.len);
	if (path == NULL)
		return;
	neighbours = neighbours_at(&p->sb->state, &p->journal, path);
	p->client->planted(p->data, path, neighbours > p->neighbours ? neighbours : p->neighbours);
}

static int
take_compared(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct protect *p = data;

	if (reply->result_case != KODA__REPLY__RESULT_COMPARED)
		return err_set(err, KODA_PROTOCOL, 0, "the reply to Compare has the wrong type");
	for (size_t i = 0; i < reply->compared->n_change; i++) {
		const Koda__Change *change = reply->compared->change[i];

		p->left |= change->kind == KODA__CHANGE_KIND__CHANGE_LEFT;
		change_tell(p->violations, p->blame, p->slot->ses->home, change);
		charge(p, change);
	}
	for (size_t i = 0; i < reply->compared->n_place; i++) {
		if (protect_add_place(p, reply->compared->place[i], false, err) < 0)
			return -1;
	}
	if (reply->compared->has_cut && reply->compared->cut)
		protect_note_cut(p);
	if (!reply->compared->watched)
		note_unwatched(p, (int)reply->compared->watch_errno);
	p->more = reply->compared->has_more && reply->compared->more;
	return 0;
}

/* ---- comparing ---- */

static int begin(struct protect *p, struct koda_error *err);

static void
finish_comparison(struct protect *p)
{
	struct koda_error err;
	struct waiter *w;

	p->told = p->now;
	p->now = p->next;
	p->next = NULL;
	p->how = p->how_next;
	p->how_next = PROTECT_LOOK;
	p->running = false;
	while ((w = p->told) != NULL) {
		p->told = w->next;
		if (w->done != NULL)
			w->done(w->data);
		free(w);
	}
	if (p->now != NULL && !p->running && begin(p, &err) < 0) {
		protect_note(p, KODA_VIOLATION_OTHER, p->slot->ses->root, "not_compared",
		    err.message);
		finish_comparison(p);
	}
}

static void
on_compared(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct protect *p = data;
	struct koda_error why;

	/* The worker died on the way, and its replacement had not scanned. */
	if (err != NULL && p->sb->up && p->slot->state == SLOT_UP && !protect_is_watching(p) &&
	    ++p->tries < COMPARE_TRIES && begin(p, &why) == 0)
		return;
	if (err == NULL && p->more && begin(p, &why) == 0)
		return;
	if (err == NULL && !p->more)
		p->seen = p->seen_next;
	if (err != NULL)
		protect_note(p, KODA_VIOLATION_OTHER, p->slot->ses->root, "not_compared",
		    err->message);
	p->tries = 0;
	finish_comparison(p);
}

static int
pack_compare(struct protect *p, struct packed *ret, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Compare msg = KODA__COMPARE__INIT;

	req.op_case = KODA__REQUEST__OP_COMPARE;
	req.compare = &msg;
	msg.has_keep = true;
	msg.keep = p->client->may_keep(p->data);
	msg.has_look = msg.look = p->how == PROTECT_LOOK;
	msg.has_gentle = msg.gentle = p->how == PROTECT_GENTLY;
	msg.has_busy = msg.busy = p->client->any_runs(p->data);
	/* The comparison that judges a last time must be a complete one. */
	if (p->how == PROTECT_WHOLLY) {
		msg.has_mounted = msg.mounted = p->mounted_news && !p->plan_old;
		p->mounted_news = false;
	}
	if (msg.busy)
		p->neighbours = neighbours_below(&p->sb->state, &p->journal, p->slot->ses->root);
	/* While a command runs, the places are hidden again. */
	msg.has_walk = msg.walk = p->how == PROTECT_WHOLLY && p->sb->uncovered;
	if (msg.walk && !msg.busy)
		p->sb->uncovered = false;
	msg.has_again = msg.again = p->again;
	p->again = false;
	if (p->blame != NULL && p->blame[0] != '\0') {
		msg.has_command = true;
		msg.command = message_text(p->blame);
		if (msg.command.len > COMMAND_TOLD_MAX)
			msg.command.len = COMMAND_TOLD_MAX;
	}
	return slot_pack_ours(p->slot, &req, ret, err);
}

static int
begin(struct protect *p, struct koda_error *err)
{
	struct koda_slot *slot = p->slot;
	struct packed packed;
	struct call *c;

	/* The worker died: its replacement first has to scan everything. */
	if (!protect_is_watching(p) && slot->state == SLOT_UP && protect_restore(p, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "compare");
	if (pack_compare(p, &packed, err) < 0) {
		free(c);
		return -1;
	}
	/* If a comparison has several replies, the first one decides when it looked. */
	if (!p->more)
		p->seen_next =
		    p->client->any_runs(p->data) || p->how != PROTECT_WHOLLY ? p->seen : p->begun;
	c->take = take_compared;
	c->take_data = p;
	c->done = on_compared;
	c->data = p;
	p->running = true;
	p->more = false;
	slot_submit_ours(slot, &packed, PROTECT_SCAN_MS, c);
	slot->ses->n_async++;
	slot_advance(slot);
	slot_rearm(slot);
	return 0;
}

int
protect_compare(struct protect *p, enum protect_how how, const char *blame, protect_done_fn *done,
    void *data, struct koda_error *err)
{
	struct waiter *w, **end;
	/* Called by a waiter of the last comparison, while others wait for the next one. */
	const bool others = !p->running && p->now != NULL;

	/* Before the first scan no command has begun. */
	if (p->sb->view.n_writable == 0 || !p->scanned) {
		if (done != NULL)
			done(data);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "compare");
	w->done = done;
	w->data = data;
	free(p->blame);
	p->blame = strdup(blame);
	/* A comparison under way may have looked before the change that this caller asks about. */
	for (end = p->running ? &p->next : &p->now; *end != NULL; end = &(*end)->next)
		;
	*end = w;
	if (p->running) {
		if (how > p->how_next)
			p->how_next = how;
		return 0;
	}
	p->how = others && p->how > how ? p->how : how;
	if (begin(p, err) == 0)
		return 0;
	*end = NULL;
	free(w);
	return -1;
}

void
protect_look(struct protect *p, const char *blame)
{
	if (!p->running && protect_is_watching(p) && p->slot->state == SLOT_UP &&
	    !koda_policy_get(p->slot->policy)->flag[KODA_ALLOW_GIT_CONFIG])
		protect_compare(p, PROTECT_LOOK, blame, NULL, NULL, NULL);
}

static void
forget_waiters(struct waiter *w, const void *data)
{
	for (; w != NULL; w = w->next)
		if (w->data == data)
			w->done = NULL;
}

void
protect_forget(struct protect *p, void *data)
{
	forget_waiters(p->told, data);
	forget_waiters(p->now, data);
	forget_waiters(p->next, data);
}

/* ---- comparing and waiting ---- */

/* Compares once and takes all replies. */
int
protect_compare_now(struct protect *p, struct koda_error *err)
{
	struct packed packed;

	do {
		if (pack_compare(p, &packed, err) < 0 ||
		    protect_ask(p, &packed, take_compared, err) < 0)
			return -1;
	} while (p->more);
	return 0;
}

int
protect_compare_last(struct protect *p, uint64_t until, struct koda_error *err)
{
	int r = -1;

	if (p->sb->view.n_writable == 0) {
		p->seen = p->begun;
		return 0;
	}
	p->until = until;
	p->how = PROTECT_WHOLLY;
	for (unsigned i = 0; r < 0 && i < COMPARE_TRIES && monotonic_ns() < until; i++) {
		/* The worker does not look again until the host has taken the last page of the
		 * previous reply. In that case a second comparison is needed. */
		const bool telling = p->running || p->more;

		if (!protect_is_watching(p) && protect_scan(p, err) < 0)
			continue;
		r = telling ? protect_compare_now(p, err) : 0;
		r = r == 0 ? protect_compare_now(p, err) : r;
	}
	/* A mount point cannot be moved, and the plan also covers paths of rules at which something
	 * appeared later. No command needs the mounts any more. */
	if (r == 0 && p->left && !p->client->any_runs(p->data) &&
	    sandbox_unmount(p->sb, err) == 0) {
		p->again = true;
		r = protect_compare_now(p, err);
	}
	if (r == 0 && !p->client->any_runs(p->data))
		p->seen = p->begun;
	return r;
}
