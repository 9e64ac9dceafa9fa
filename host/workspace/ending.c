/* SPDX-License-Identifier: Apache-2.0 */
#include "host/workspace/ending.h"

#include "host/command/command.h"
#include "host/command/list.h"
#include "host/context/event.h"
#include "host/protect/protect.h"
#include "host/protect/protect_compare.h"
#include "host/sandbox/sandbox_control.h"
#include "host/sandbox/sandbox_end.h"
#include "host/slot/slot.h"
#include "shared/base/clock.h"

static int
ms_until(uint64_t until)
{
	const uint64_t now = monotonic_ns();

	return until > now ? (int)((until - now) / NS_PER_MS) + 1 : 0;
}

/* Waits until stage2 reports that nothing of the commands is left. If it does not, the whole
 * sandbox is ended. */
static void
end_commands(struct commands *cs, const struct koda_error *why, uint64_t until)
{
	struct sandbox *sb = cs->sandbox;
	struct koda_error stuck;

	for (struct koda_command *c = cs->first, *next; c != NULL; c = next) {
		next = c->next;
		if (c->state == COMMAND_ASKING)
			command_closed(c, why);
		else
			command_cut_short(c, why);
	}
	while (sb->up && list_any_runs(cs) && monotonic_ns() < until)
		sandbox_wait(sb, ms_until(until));
	if (!sb->up || !list_any_runs(cs))
		return;
	err_set(&stuck, KODA_WORKER, 0, "the sandbox could not end its commands");
	sandbox_kill(sb, &stuck);
}

/* Reports the violations recorded after the first `seen`, as far as they were kept. */
static void
tell_since(struct koda_session *ses, const struct violations *all, uint64_t seen)
{
	size_t n = all->recorded - seen < all->n ? (size_t)(all->recorded - seen) : all->n;

	for (size_t i = all->n - n; i < all->n; i++) {
		const struct koda_violation *v = violations_at(all, i);

		session_event(ses, KODA_EVENT_LEFT, "'%.600s': %s", v->target, v->detail);
	}
}

static int
compare(struct koda_slot *slot, struct protect *protect, uint64_t until, struct koda_error *err)
{
	struct koda_error why = { 0 };

	if (protect_compare_last(protect, until, &why) == 0)
		return 0;
	if (monotonic_ns() >= until)
		err_set(&why, KODA_TIMEOUT, 0, "it took longer than %d s", ENDING_MS / 1000);
	session_event(slot->ses, KODA_EVENT_DEGRADED,
	    "what commands left below '%.600s' was not checked at the end: %.600s. The next "
	    "session there does that first",
	    slot->ses->root, why.message);
	if (err != NULL)
		*err = why;
	return err_wrap(err, "check what commands left");
}

int
ending_run(struct koda_slot *slot, bool quietly, struct koda_error *err)
{
	struct commands *cs = slot->commands;
	struct koda_session *ses = slot->ses;
	uint64_t until = monotonic_ns() + ENDING_MS * NS_PER_MS, seen;
	struct koda_error why;
	int r = 0;

	if (cs == NULL || cs->ended || *ses->here != 1)
		return 0;
	if (ses->end_by != 0 && ses->end_by < until)
		until = ses->end_by;
	cs->ended = true;
	cs->compare_at = 0;
	seen = cs->violations.recorded;
	err_set(&why, KODA_WORKER, 0, "the slot was closed while the command ran");
	slot_give_up_calls(slot);
	end_commands(cs, &why, until);
	if (protect_had_commands(cs->protect))
		r = compare(slot, cs->protect, until, err);
	while (cs->first != NULL)
		command_compared(cs->first);
	/* Without the commands, their violations can no longer be queried either. */
	if (!quietly || slot->commands == NULL)
		tell_since(ses, &cs->violations, seen);
	return r;
}
