#include "host/protect/protect_compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/command/command.h"
#include "host/protect/change.h"
#include "host/protect/neighbours.h"
#include "host/protect/protect_scan.h"
#include "host/protect/watches.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define COMPARE_TRIES 3

/* ---- the worker's changes ---- */

static void
note_unwatched(struct sandbox *sb, int errnum)
{
	char text[WATCHES_TEXT_MAX];
	struct watches watches;

	if (sb->protect->said_unwatched)
		return;
	sb->protect->said_unwatched = true;
	watches_look(&watches);
	watches_sentence(&watches, errnum, text, sizeof(text));
	session_event(sb->slot->ses, KODA_EVENT_DEGRADED, "%s", text);
}

/* If several commands run, it is unknown which of them planted the file, so it counts against each.
 * Only the second time at a path does it matter whether a neighbour may have planted it. */
static void
charge(struct sandbox *sb, const Koda__Change *change)
{
	cleanup_free char *path = NULL;
	struct koda_command *next;
	size_t neighbours = SIZE_MAX; /* not read yet */

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
	for (struct koda_command *c = sb->commands; c != NULL; c = next) {
		const bool known = planted_is_known(&c->planted, path);

		if (known && neighbours == SIZE_MAX)
			neighbours = neighbours_at(&sb->state, &sb->protect->journal, path);
		next = c->next;
		command_planted(c, path, known ? neighbours : 0);
	}
}

/* Returns how many planted things may be kept: the smallest number that any running command has
 * left. */
static uint32_t
may_keep(const struct sandbox *sb)
{
	uint32_t left = PLANTED_MAX;

	for (const struct koda_command *c = sb->commands; c != NULL; c = c->next) {
		if (planted_left(&c->planted) < left)
			left = planted_left(&c->planted);
	}
	return left;
}

static int
take_compared(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct sandbox *sb = data;

	if (reply->result_case != KODA__REPLY__RESULT_COMPARED)
		return err_set(err, KODA_PROTOCOL, 0, "a reply of another kind than Compare's");
	for (size_t i = 0; i < reply->compared->n_change; i++) {
		const Koda__Change *change = reply->compared->change[i];

		sb->protect->left |= change->kind == KODA__CHANGE_KIND__CHANGE_LEFT;
		change_tell(&sb->violations, sb->protect->blame, sb->slot->ses->home, change);
		charge(sb, change);
	}
	for (size_t i = 0; i < reply->compared->n_place; i++) {
		if (protect_add_place(sb, reply->compared->place[i], false, err) < 0)
			return -1;
	}
	if (reply->compared->has_cut && reply->compared->cut)
		protect_note_cut(sb);
	if (!reply->compared->watched)
		note_unwatched(sb, (int)reply->compared->watch_errno);
	sb->protect->more = reply->compared->has_more && reply->compared->more;
	return 0;
}

/* ---- comparing ---- */

static int begin(struct sandbox *sb, struct koda_error *err);

static bool
anything_runs(const struct sandbox *sb)
{
	const struct koda_command *c = sb->commands;

	while (c != NULL && c->state != COMMAND_RUNNING)
		c = c->next;
	return c != NULL || sb->n_given_up > 0;
}

static void
finish_comparison(struct sandbox *sb)
{
	struct protect *p = sb->protect;
	struct koda_error err;
	struct waiter *w = p->now;

	p->now = p->next;
	p->next = NULL;
	p->how = p->how_next;
	p->how_next = PROTECT_LOOK;
	p->running = false;
	while (w != NULL) {
		struct waiter *next = w->next;

		if (w->done != NULL)
			w->done(w->data);
		free(w);
		w = next;
	}
	if (p->now != NULL && !p->running && begin(sb, &err) < 0) {
		protect_note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_compared",
		    err.message);
		finish_comparison(sb);
	}
}

static void
on_compared(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct sandbox *sb = data;
	struct protect *p = sb->protect;
	struct koda_error why;

	/* The worker died on the way, and its replacement had not scanned. */
	if (err != NULL && sb->up && sb->slot->state == SLOT_UP && !protect_is_watching(sb) &&
	    ++p->tries < COMPARE_TRIES && begin(sb, &why) == 0)
		return;
	if (err == NULL && p->more && begin(sb, &why) == 0)
		return;
	if (err == NULL && !p->more)
		p->seen = p->seen_next;
	if (err != NULL)
		protect_note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_compared",
		    err->message);
	p->tries = 0;
	finish_comparison(sb);
}

static int
pack_compare(struct sandbox *sb, struct packed *ret, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Compare msg = KODA__COMPARE__INIT;

	req.op_case = KODA__REQUEST__OP_COMPARE;
	req.compare = &msg;
	msg.has_keep = true;
	msg.keep = may_keep(sb);
	msg.has_look = msg.look = sb->protect->how == PROTECT_LOOK;
	msg.has_gentle = msg.gentle = sb->protect->how == PROTECT_GENTLY;
	msg.has_busy = msg.busy = anything_runs(sb);
	/* The comparison that judges a last time must be a complete one. */
	if (sb->protect->how == PROTECT_WHOLLY) {
		msg.has_mounted = msg.mounted = sb->protect->mounted_news && !sb->protect->plan_old;
		sb->protect->mounted_news = false;
	}
	msg.has_again = msg.again = sb->protect->again;
	sb->protect->again = false;
	if (sb->protect->blame != NULL && sb->protect->blame[0] != '\0') {
		msg.has_command = true;
		msg.command = message_text(sb->protect->blame);
		if (msg.command.len > COMMAND_TOLD_MAX)
			msg.command.len = COMMAND_TOLD_MAX;
	}
	return slot_pack_ours(sb->slot, &req, ret, err);
}

static int
begin(struct sandbox *sb, struct koda_error *err)
{
	struct koda_slot *slot = sb->slot;
	struct protect *p = sb->protect;
	struct packed packed;
	struct call *c;

	/* The worker died: its replacement first has to scan everything. */
	if (!protect_is_watching(sb) && slot->state == SLOT_UP && protect_prepare(sb, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "compare");
	if (pack_compare(sb, &packed, err) < 0) {
		free(c);
		return -1;
	}
	/* If a comparison has several replies, the first one decides when it looked. */
	if (!p->more)
		p->seen_next = anything_runs(sb) || p->how != PROTECT_WHOLLY ? p->seen : p->begun;
	c->take = take_compared;
	c->take_data = sb;
	c->done = on_compared;
	c->data = sb;
	p->running = true;
	p->more = false;
	slot_submit_ours(slot, &packed, PROTECT_SCAN_MS, c);
	slot->ses->n_async++;
	slot_advance(slot);
	session_rearm(slot->ses, slot);
	return 0;
}

int
protect_compare(struct sandbox *sb, enum protect_how how, const char *blame, protect_done_fn *done,
    void *data, struct koda_error *err)
{
	struct protect *p = sb->protect;
	struct waiter *w, **end;
	/* Called by a waiter of the last comparison, while others wait for the next one. */
	const bool others = !p->running && p->now != NULL;

	if (sb->view.n_writable == 0) {
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
	if (begin(sb, err) == 0)
		return 0;
	*end = NULL;
	free(w);
	return -1;
}

void
protect_look(struct sandbox *sb)
{
	if (!sb->protect->running && protect_is_watching(sb) && sb->slot->state == SLOT_UP &&
	    !koda_policy_get(sb->slot->policy)->flag[KODA_ALLOW_GIT_CONFIG])
		protect_compare(sb, PROTECT_LOOK, sandbox_only_command(sb), NULL, NULL, NULL);
}

void
protect_forget(struct sandbox *sb, void *data)
{
	for (struct waiter *w = sb->protect->now; w != NULL; w = w->next)
		if (w->data == data)
			w->done = NULL;
	for (struct waiter *w = sb->protect->next; w != NULL; w = w->next)
		if (w->data == data)
			w->done = NULL;
}

/* ---- comparing and waiting ---- */

/* Compares once and takes all replies. */
int
protect_compare_now(struct sandbox *sb, struct koda_error *err)
{
	struct packed packed;

	do {
		if (pack_compare(sb, &packed, err) < 0 ||
		    protect_ask(sb, &packed, take_compared, err) < 0)
			return -1;
	} while (sb->protect->more);
	return 0;
}

int
protect_compare_last(struct sandbox *sb, uint64_t until, struct koda_error *err)
{
	struct protect *p = sb->protect;
	int r = -1;

	if (sb->view.n_writable == 0) {
		p->seen = p->begun;
		return 0;
	}
	p->until = until;
	p->how = PROTECT_WHOLLY;
	for (unsigned i = 0; r < 0 && i < COMPARE_TRIES && monotonic_ns() < until; i++) {
		/* The worker does not look again until the host has taken the last page of the
		 * previous reply. In that case a second comparison is needed. */
		const bool telling = p->running || p->more;

		if (!protect_is_watching(sb) && protect_scan(sb, err) < 0)
			continue;
		r = telling ? protect_compare_now(sb, err) : 0;
		r = r == 0 ? protect_compare_now(sb, err) : r;
	}
	/* A mount point cannot be moved, and the plan also covers paths of rules at which something
	 * appeared later. No command needs the mounts any more. */
	if (r == 0 && p->left && !anything_runs(sb) && sandbox_unmount(sb, err) == 0) {
		p->again = true;
		r = protect_compare_now(sb, err);
	}
	if (r == 0 && !anything_runs(sb))
		p->seen = p->begun;
	return r;
}
