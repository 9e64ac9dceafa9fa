/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context/event.h"
#include "host/sandbox/draft_boot.h"
#include "host/sandbox/sandbox_control.h"
#include "host/sandbox/sandbox_input.h"
#include "shared/base/cleanup.h"

/* Locks koda's own directory and opens the quarantine. Without a quarantine, the host reports what
 * commands plant but leaves it where it is. The sandbox starts all the same; the host reports once
 * that there is no quarantine. */
static int
hold_state(struct sandbox *sb, struct koda_error *err)
{
	struct koda_session *ses = sb->ses;
	cleanup_free char *name = state_quarantine_name(ses->root);
	struct koda_error why = { 0 };
	int r = 0;

	if (name == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	if (ses->state == NULL)
		err_set(&why, KODA_IO, 0,
		    "there is no home directory and XDG_STATE_HOME is not set");
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
			? "files that commands plant are reported, but cannot be removed"
			: "it is used anyway");
		ses->said_state = true;
	}
	return 0;
}

/* If commands could replace a link on the way to koda's own directory, they could lead the next
 * session to a directory of their own. */
static int
check_state(const struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->ses;
	cleanup_free char *named = state_path_as_named(ses->home);

	if (named == NULL || ses->state == NULL || strcmp(named, ses->state) == 0)
		return 0;
	for (size_t i = 0; i < sb->view.n_writable; i++) {
		if (!path_is_inside(named, sb->view.writable[i]))
			continue;
		return err_set(err, KODA_INVALID, 0,
		    "koda-sandbox cannot use '%.300s' as its own directory, because it leads "
		    "through a link that commands may replace: set XDG_STATE_HOME to where the "
		    "link leads",
		    named);
	}
	return 0;
}

/* The user has not approved the commands of a draft, and decides on their changes afterwards. What
 * they send cannot be held back like a change. */
static enum wire_consent
consent_of(const struct sandbox *sb)
{
	if (!sb->drafted || koda_policy_get(sb->policy)->trust != KODA_TRUST_REQUIRE)
		return WIRE_CONSENT_UNNAMED;
	return sb->ses->approve != NULL ? WIRE_CONSENT_EACH : WIRE_CONSENT_EACH_GIVEN;
}

struct sandbox *
sandbox_new(const struct sandbox_of *of, struct koda_error *err)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));
	struct egress_slot egress;

	if (sb == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
		return NULL;
	}
	sb->ses = of->ses;
	sb->policy = koda_policy_ref(of->policy);
	sb->violations = of->violations;
	sb->client = of->client;
	sb->data = of->data;
	sb->source = (struct source){ .ready = sandbox_on_readable, .fd = -1 };
	sb->end = (struct sandbox_end){ { .ready = sandbox_on_bwrap_gone, .fd = -1 }, sb };
	sb->bwrap.pidfd = sb->said_fd = sb->quarantine_fd = sb->init_fd = -1;
	sb->state = (struct state)STATE_NONE;
	sb->fs.fd = -1;
	sb->layers = CACHE_STORE_CLOSED;
	sb->points = CACHE_POINTS_NONE;
	sb->draft = DRAFT_CLOSED;
	sb->drafted = of->draft != NULL;
	arena_init(&sb->arena);
	egress = (struct egress_slot){ sb->ses, sb->policy, sb->violations, consent_of(sb),
		of->client->blame, of->data };
	egress_port_init(&sb->egress, &egress);
	if (sandbox_find_caches(sb, err) < 0 || hold_state(sb, err) < 0 ||
	    sandbox_plan(sb, err) < 0 || check_state(sb, err) < 0 ||
	    (sb->drafted && draft_boot_open(sb, of->draft, err) < 0)) {
		sandbox_free(sb);
		return NULL;
	}
	return sb;
}

void
sandbox_free(struct sandbox *sb)
{
	egress_port_done(&sb->egress);
	view_done(&sb->view);
	free(sb->cache);
	caches_done(&sb->caches);
	free(sb->git_dir);
	draft_boot_close(sb);
	close_at(&sb->quarantine_fd);
	state_let_go(&sb->state, sb->ses->state);
	arena_done(&sb->arena);
	koda_policy_free(sb->policy);
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
	draft_abandon(&sb->draft);
	close_at(&sb->state.fd);
	close_at(&sb->init_fd);
	sb->state.fd = sb->init_fd = -1;
}
