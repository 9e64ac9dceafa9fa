#include "host/sandbox/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/command/command.h"
#include "host/protect/protect.h"
#include "host/sandbox/sandbox_boot.h"
#include "host/sandbox/sandbox_control.h"
#include "host/sandbox/sandbox_input.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

const char *
sandbox_only_command(const struct sandbox *sb)
{
	return sb->n_commands == 1 && !sb->mixed ? sb->commands->name : "";
}

void
sandbox_kill(struct sandbox *sb, const struct koda_error *why)
{
	if (!sb->up)
		return;
	session_event(sb->slot->ses, KODA_EVENT_DEATH, "the sandbox of a slot is gone: %s",
	    why->message);
	sandbox_forget(sb);
	for (struct koda_command *c = sb->commands, *next; c != NULL; c = next) {
		next = c->next;
		command_lost(c, why);
	}
}

/* ---- time ---- */

uint64_t
sandbox_next_time(const struct sandbox *sb)
{
	uint64_t first = sb->compare_at != 0 ? sb->compare_at : UINT64_MAX;

	if (sb->look_at != 0 && sb->look_at < first)
		first = sb->look_at;

	for (const struct koda_command *c = sb->commands; c != NULL; c = c->next) {
		uint64_t at = command_next_time(c);

		if (at < first)
			first = at;
	}
	return first;
}

void
sandbox_tick(struct sandbox *sb)
{
	const uint64_t now = monotonic_ns();
	struct koda_command *c, *next;

	if (sb->compare_at != 0 && now >= sb->compare_at) {
		bool background = false;

		for (c = sb->commands; c != NULL; c = c->next)
			background |= c->background && c->state == COMMAND_RUNNING;
		sb->compare_at = background ? now + PROTECT_INTERVAL_MS * NS_PER_MS : 0;
		protect_compare(sb, PROTECT_GENTLY, sandbox_only_command(sb), NULL, NULL, NULL);
	}
	if (sb->look_at != 0 && now >= sb->look_at) {
		bool running = false;

		for (c = sb->commands; c != NULL; c = c->next)
			running |= c->state == COMMAND_RUNNING;
		sb->look_at = running ? now + PROTECT_LOOK_MS * NS_PER_MS : 0;
		if (running)
			protect_look(sb);
	}
	for (c = sb->commands; c != NULL; c = next) {
		next = c->next;
		command_tick(c, now);
	}
}

/* ---- the object ---- */

/* Locks koda's own directory and opens the quarantine. Without a quarantine, the host reports what
 * commands plant but leaves it where it is. The sandbox starts all the same; the host reports once
 * that there is no quarantine. */
static int
hold_state(struct sandbox *sb, struct koda_error *err)
{
	struct koda_session *ses = sb->slot->ses;
	cleanup_free char *name = state_quarantine_name(ses->root);
	struct koda_error why = { 0 };
	int r = 0;

	if (name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	if (ses->state == NULL)
		err_set(&why, KODA_IO, 0, "there is no home directory, and no XDG_STATE_HOME");
	else
		r = state_hold(&sb->state, ses->state, &why);
	if (r < 0) {
		*err = why;
		return -1;
	}
	if (r > 0)
		sb->quarantine_fd = state_quarantine(&sb->state, name, true);
	if (r > 0 && sb->quarantine_fd < 0)
		err_set(&why, KODA_IO, errno, "make the quarantine in '%s'", ses->state);
	if (why.code != KODA_OK && !ses->said_state) {
		session_event(ses, KODA_EVENT_DEGRADED, "%s: %s", why.message,
		    sb->quarantine_fd < 0
			? "what a command plants is told, but cannot be taken away"
			: "it is used all the same");
		ses->said_state = true;
	}
	return 0;
}

/* If commands could replace a link on the way to koda's own directory, they could lead the next
 * session to a directory of their own. */
static int
check_state(const struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->slot->ses;
	cleanup_free char *named = state_path_as_named(ses->home);

	if (named == NULL || ses->state == NULL || strcmp(named, ses->state) == 0)
		return 0;
	for (size_t i = 0; i < sb->view.n_writable; i++) {
		if (!path_is_inside(named, sb->view.writable[i]))
			continue;
		return err_set(err, KODA_INVALID, 0,
		    "'%.300s' is to be koda-sandbox's own directory, and leads through a link that commands may "
		    "replace: set XDG_STATE_HOME to where the link leads",
		    named);
	}
	return 0;
}

struct sandbox *
sandbox_new(struct koda_slot *slot, struct koda_error *err)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (sb == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
		return NULL;
	}
	sb->slot = slot;
	sb->source = (struct source){ .ready = sandbox_on_readable, .fd = -1 };
	sb->end = (struct sandbox_end){ { .ready = sandbox_on_bwrap_gone, .fd = -1 }, sb };
	sb->bwrap.pidfd = sb->said_fd = sb->quarantine_fd = sb->init_fd = -1;
	sb->state = (struct state)STATE_NONE;
	sb->fs.fd = -1;
	sb->layers = CACHE_STORE_CLOSED;
	sb->points = CACHE_POINTS_NONE;
	arena_init(&sb->arena);
	violations_init(&sb->violations, VIOLATIONS_MAX);
	egress_port_init(&sb->egress, sb);
	sb->protect = protect_new();
	if (sb->protect == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
		sandbox_free(sb);
		return NULL;
	}
	if (sandbox_find_caches(sb, err) < 0 || hold_state(sb, err) < 0 ||
	    sandbox_plan(sb, err) < 0 || check_state(sb, err) < 0) {
		sandbox_free(sb);
		return NULL;
	}
	return sb;
}

void
sandbox_free(struct sandbox *sb)
{
	struct koda_error why;

	if (sb == NULL)
		return;
	err_set(&why, KODA_WORKER, 0, "the slot was closed while it ran");
	sandbox_forget(sb);
	while (sb->commands != NULL)
		command_closed(sb->commands, &why);
	egress_port_done(&sb->egress);
	protect_free(sb->protect);
	view_done(&sb->view);
	violations_done(&sb->violations);
	free(sb->cache);
	caches_done(&sb->caches);
	free(sb->git_dir);
	close_at(&sb->quarantine_fd);
	state_let_go(&sb->state, sb->slot->ses->state);
	arena_done(&sb->arena);
	free(sb);
}

void
sandbox_abandon(struct sandbox *sb)
{
	close_at(&sb->bwrap.pidfd);
	sb->bwrap.pidfd = -1;
	cache_store_abandon(&sb->layers);
	cache_points_done(&sb->points, false);
	sb->source.fd = sb->end.source.fd = -1;
	/* The lock is shared with the parent: closing the descriptor keeps it, unlocking would
	 * release the parent's. */
	close_at(&sb->state.fd);
	close_at(&sb->init_fd);
	sb->state.fd = sb->init_fd = -1;
	protect_abandon(sb->protect);
	for (struct koda_command *c = sb->commands; c != NULL; c = c->next)
		c->out.source.fd = c->err.source.fd = -1;
}
