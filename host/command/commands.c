/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/commands.h"

#include <errno.h>

#include "host/command/command.h"
#include "host/command/list.h"
#include "host/protect/protect_compare.h"
#include "host/protect/protect_note.h"
#include "shared/base/clock.h"

static const char *
blame(const void *data)
{
	return list_blame(data);
}

/* Returns the first command that runs now, or that runs in the background. */
static struct koda_command *
first_running(const struct commands *cs, bool in_background)
{
	struct koda_command *c = cs->first;

	while (c != NULL && (c->state != COMMAND_RUNNING || (in_background && !c->background)))
		c = c->next;
	return c;
}

/* ---- for the sandbox ---- */

static void
compare_soon(struct commands *cs)
{
	cs->compare_at = 1;
	loop_wake_at(&cs->slot->ses->loop, 0);
}

static struct koda_command *
find_running(const struct commands *cs, uint64_t id)
{
	struct koda_command *c = cs->first;

	while (c != NULL && (c->state != COMMAND_RUNNING || c->id != id))
		c = c->next;
	return c;
}

/* No embedder waits for this command any more, but what it left behind is checked all the same. */
static void
on_end_of_given_up(struct commands *cs, const Koda__Report *r)
{
	/* Step ORDER with ESRCH answers an End that came too late; it does not report on the
	 * command. */
	const bool exited = r->report_case == KODA__REPORT__REPORT_EXITED,
		   not_begun = r->report_case == KODA__REPORT__REPORT_FAILED &&
	    (r->failed->step != KODA__FAILED_STEP__FAILED_STEP_ORDER || r->failed->errnum != ESRCH);

	if (cs->n_given_up == 0 || (!exited && !not_begun))
		return;
	cs->n_given_up--;
	if (!cs->ended)
		compare_soon(cs);
}

static void
on_report(void *data, const Koda__Report *r)
{
	struct commands *cs = data;
	struct koda_command *c = find_running(cs, r->id);

	if (c != NULL)
		command_report(c, r);
	else
		on_end_of_given_up(cs, r);
}

static void
on_lost(void *data, const struct koda_error *why)
{
	struct commands *cs = data;
	struct koda_command *c;

	cs->n_given_up = 0;
	/* While one is compared, others may end and be freed: start from the beginning each time. */
	while ((c = first_running(cs, false)) != NULL)
		command_lost(c, why);
}

static void
on_appeared(void *data)
{
	compare_soon(data);
}

const struct sandbox_client commands_of_sandbox = { blame, on_report, on_lost, on_appeared };

/* ---- for the protection ---- */

static bool
any_runs(const void *data)
{
	return list_any_runs(data);
}

static bool
any_in_use(const void *data)
{
	const struct commands *cs = data;

	for (const struct koda_command *c = cs->first; c != NULL; c = c->next)
		if (c->state == COMMAND_RUNNING || c->state == COMMAND_COMPARING)
			return true;
	return false;
}

/* Returns how many planted things may be kept: the smallest number that any running command has
 * left. */
static uint32_t
may_keep(const void *data)
{
	const struct commands *cs = data;
	uint32_t left = PLANTED_MAX;

	for (const struct koda_command *c = cs->first; c != NULL; c = c->next)
		if (planted_left(&c->planted) < left)
			left = planted_left(&c->planted);
	return left;
}

/* If several commands run, it is unknown which of them planted the file, so it counts against
 * each. */
static void
on_planted(void *data, const char *path, size_t neighbours)
{
	struct commands *cs = data;

	for (struct koda_command *c = cs->first, *next; c != NULL; c = next) {
		next = c->next;
		command_planted(c, path, neighbours);
	}
}

const struct protect_client commands_of_protect = { any_runs, any_in_use, may_keep, on_planted };

/* ---- their end ---- */

void
commands_close(struct commands *cs)
{
	struct koda_error why;

	err_set(&why, KODA_WORKER, 0, "the slot was closed while the command ran");
	while (cs->first != NULL) {
		if (cs->first->state != COMMAND_COMPARING) {
			command_closed(cs->first, &why);
			continue;
		}
		/* It has a result, which must not look as if it had been compared. */
		protect_note(cs->protect, KODA_VIOLATION_OTHER, cs->slot->ses->root, "not_compared",
		    "the sandbox ended before the comparison");
		command_compared(cs->first);
	}
}

void
commands_abandon(struct commands *cs)
{
	for (struct koda_command *c = cs->first; c != NULL; c = c->next)
		c->out.source.fd = c->err.source.fd = -1;
}

/* ---- time ---- */

uint64_t
commands_next_time(const struct commands *cs)
{
	uint64_t first = cs->compare_at != 0 ? cs->compare_at : UINT64_MAX;

	if (cs->look_at != 0 && cs->look_at < first)
		first = cs->look_at;
	for (const struct koda_command *c = cs->first; c != NULL; c = c->next) {
		uint64_t at = command_next_time(c);

		if (at < first)
			first = at;
	}
	return first;
}

void
commands_tick(struct commands *cs)
{
	const uint64_t now = monotonic_ns();

	if (cs->compare_at != 0 && now >= cs->compare_at) {
		cs->compare_at =
		    first_running(cs, true) != NULL ? now + PROTECT_INTERVAL_MS * NS_PER_MS : 0;
		protect_compare(cs->protect, PROTECT_GENTLY, list_blame(cs), NULL, NULL, NULL);
	}
	if (cs->look_at != 0 && now >= cs->look_at) {
		const bool running = first_running(cs, false) != NULL;

		cs->look_at = running ? now + PROTECT_LOOK_MS * NS_PER_MS : 0;
		if (running)
			protect_look(cs->protect, list_blame(cs));
	}
	for (struct koda_command *c = cs->first, *next; c != NULL; c = next) {
		next = c->next;
		if (!command_tick(c, now))
			return;
	}
}
