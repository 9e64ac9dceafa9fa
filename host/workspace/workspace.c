/* SPDX-License-Identifier: Apache-2.0 */
#include "host/workspace/workspace.h"

#include <errno.h>
#include <stdlib.h>

#include "host/command/commands.h"
#include "host/context/event.h"
#include "host/draft/held.h"
#include "host/protect/protect.h"
#include "host/sandbox/sandbox.h"
#include "host/sandbox/sandbox_end.h"
#include "host/sandbox/sandbox_orders.h"
#include "host/search/search.h"
#include "host/slot/slot.h"
#include "host/workspace/ending.h"
#include "host/workspace/keeping.h"
#include "host/workspace/recovery.h"
#include "shared/base/cleanup.h"

/* ---- commands, and the sandbox under them ---- */

static void
free_commands(struct commands *cs)
{
	if (cs == NULL)
		return;
	if (cs->sandbox != NULL)
		sandbox_forget(cs->sandbox);
	commands_close(cs);
	protect_free(cs->protect);
	if (cs->sandbox != NULL)
		sandbox_free(cs->sandbox);
	violations_done(&cs->violations);
	free(cs);
}

/* The slot goes on without commands. Functions up the stack may be in the middle of a request to
 * the worker for them, so they are freed when the outermost one returns: workspace_settle(). */
static void
drop_commands(struct koda_slot *slot)
{
	sandbox_forget(slot->commands->sandbox);
	commands_close(slot->commands);
	slot->dropped = slot->commands;
	slot->commands = NULL;
	slot->ses->n_dropped++;
}

void
workspace_settle(struct koda_slot *slot)
{
	if (slot->dropped == NULL)
		return;
	free_commands(slot->dropped);
	slot->dropped = NULL;
	slot->ses->n_dropped--;
}

static int
add_commands(struct koda_slot *slot, const char *draft, struct koda_error *err)
{
	struct commands *cs = calloc(1, sizeof(*cs));
	const struct sandbox_of sandbox = { slot->ses, slot->policy,
		cs == NULL ? NULL : &cs->violations, &commands_of_sandbox, cs, draft };
	struct protect_of protect = { slot, NULL, sandbox.violations, &commands_of_protect, cs };

	if (cs == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "commands");
	cs->slot = slot;
	slot->commands = cs;
	violations_init(&cs->violations, VIOLATIONS_MAX);
	cs->sandbox = protect.sandbox = sandbox_new(&sandbox, err);
	if (cs->sandbox == NULL)
		return -1;
	slot->drafted = cs->sandbox->drafted;
	cs->protect = protect_new(&protect);
	return cs->protect == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "commands") : 0;
}

/* ---- for the slot ---- */

static int
launch(struct koda_slot *slot, enum slot_program which, int socket, struct child *ret,
    struct koda_error *err)
{
	const bool search = which == SLOT_SEARCH;

	if (slot->commands != NULL) {
		if (sandbox_start_worker(slot->commands->sandbox,
			search ? SANDBOX_SEARCH : SANDBOX_FILES, socket, ret, err) == 0)
			return 0;
		/* Without its sandbox a draft slot would work in the project. */
		if (search || slot->commands->sandbox->drafted || err->code != KODA_UNSUPPORTED ||
		    !session_degrade(slot->ses, err))
			return -1;
		drop_commands(slot);
	}
	return spawn_helper(search ? slot->ses->search_path : slot->ses->worker_path, socket, ret,
	    err);
}

static void
add_place(struct seal_places *places, const char *dir)
{
	if (places->n < SEAL_PLACES_MAX)
		places->dir[places->n++] = dir;
}

static void
held_places(const struct held_seal *held, struct seal_places *ret)
{
	const struct draft *d = held->draft;

	ret->draft_fd = d == NULL ? -1 : d->fd;
	ret->draft_made_ns = d == NULL ? 0 : d->begun_ns;
	ret->draft_mounted_ns = d == NULL ? 0 : draft_mounted_ns(d);
	ret->history_fd = held->history_fd;
	for (size_t i = 0; d != NULL && i < d->n_dirs && i < DRAFT_LAYERS_MAX; i++)
		ret->layer[ret->n_layers++] = (struct seal_layer){ d->dir[i].path, d->dir[i].dev,
			d->dir[i].ino, d->dir[i].name };
}

static void
find_places(const struct koda_slot *slot, bool with_places, struct seal_places *ret)
{
	const struct recovery_seal *recovering = slot->ses->recovering;
	const struct sandbox *sb = slot->commands != NULL ? slot->commands->sandbox : NULL;

	if (slot->ses->held != NULL)
		held_places(slot->ses->held, ret);
	if (sb != NULL && sb->drafted) {
		ret->root_dev = sb->root_dev;
		ret->root_ino = sb->root_ino;
		return; /* nothing is planted in the project, and nothing taken away from a draft */
	}
	if (!with_places)
		return;
	if (slot->ses->held == NULL)
		ret->history_fd = keeping_fd(slot);
	if (recovering != NULL)
		ret->quarantine_fd = recovering->quarantine_fd;
	else if (sb != NULL)
		ret->quarantine_fd = sb->quarantine_fd;
	if (sb != NULL && sb->git_dir != NULL && view_writes(&sb->view, sb->git_dir, NULL))
		add_place(ret, sb->git_dir);
	/* Only caches shared with the host: writes to the other caches do not reach the host. */
	for (size_t i = 0; sb != NULL && i < sb->caches.n; i++)
		if (view_writes(&sb->view, sb->caches.v[i].path, NULL) &&
		    !view_is_cached(&sb->view, sb->caches.v[i].path))
			add_place(ret, sb->caches.v[i].path);
	for (size_t i = 0; recovering != NULL && i < recovering->n_caches; i++)
		add_place(ret, recovering->cache[i]);
}

static void
refresh(struct koda_slot *slot)
{
	if (slot->commands != NULL)
		sandbox_refresh(slot->commands->sandbox);
}

static const struct slot_client client = { launch, find_places, keeping_grown, refresh };

/* ---- the whole ---- */

static void
end_all(struct koda_slot *slot)
{
	search_close_all(slot);
	slot_close(slot);
	workspace_settle(slot);
	free_commands(slot->commands);
	slot_free(slot);
}

struct koda_slot *
workspace_new(struct koda_session *ses, struct koda_policy *policy, const char *draft,
    struct koda_error *err)
{
	struct koda_slot *slot = slot_new(ses, policy, &client, err);
	int r;

	if (slot == NULL)
		return NULL;
	if (draft != NULL && !ses->commands) {
		err_set(err, KODA_UNSUPPORTED, 0, "a draft needs the kernel sandbox: see doctor");
		end_all(slot);
		return NULL;
	}
	if (ses->commands && add_commands(slot, draft, err) < 0) {
		end_all(slot);
		return NULL;
	}
	/* Before the slot looks at the project, which may contain planted files. */
	ses->depth++;
	r = recovery_run(slot, err);
	ses->depth--;
	if (r == 0)
		return slot;
	workspace_free(slot);
	return NULL;
}

static int
ping_slot(struct koda_slot *slot, struct koda_error *err)
{
	const struct koda_op op = { .kind = KODA_OP_PING, .timeout_ms = SLOT_READY_MS };
	struct koda_result none;
	int r = koda_call(slot, &op, &none, err);

	koda_result_done(&none);
	return r;
}

int
workspace_make_ready(struct koda_slot *slot, struct koda_error *err)
{
	if (ping_slot(slot, err) < 0)
		return -1;
	if (slot->commands == NULL || protect_prepare(slot->commands->protect, err) == 0)
		return 0;
	/* The sandbox could not be built again: as if it had not been built now. */
	return slot->commands == NULL ? ping_slot(slot, err) : -1;
}

void
workspace_free(struct koda_slot *slot)
{
	ending_run(slot, false, NULL);
	end_all(slot);
}

static void
abandon_commands(struct commands *cs)
{
	if (cs == NULL)
		return;
	sandbox_abandon(cs->sandbox);
	protect_abandon(cs->protect);
	commands_abandon(cs);
}

void
workspace_abandon(struct koda_slot *slot)
{
	close_at(&slot->child.pidfd);
	slot->child.pidfd = -1;
	slot->state = SLOT_DOWN;
	slot->source.fd = -1; /* the epoll set is shared with the parent */
	search_abandon_all(slot);
	abandon_commands(slot->commands);
	abandon_commands(slot->dropped);
}

/* ---- in a turn of the loop ---- */

void
workspace_tick(struct koda_slot *slot)
{
	if (slot->commands != NULL)
		commands_tick(slot->commands);
	search_tick(slot);
	if (slot->n_calls > 0 || slot->state == SLOT_DYING) {
		slot_tick(slot);
		slot_ask(slot);
	}
}

void
workspace_flush(struct koda_slot *slot)
{
	if (slot->n_queued > 0)
		slot_advance(slot);
}

uint64_t
workspace_next_time(struct koda_slot *slot)
{
	uint64_t first = search_next_time(slot), at;

	if (slot->commands != NULL && (at = commands_next_time(slot->commands)) < first)
		first = at;
	if ((slot->source.fd >= 0 || slot->n_calls > 0) && (at = slot_watch(slot)) < first)
		first = at;
	return first;
}
