/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/session_drafts.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/change_set.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/text.h"
#include "shared/base/clock.h"

/* At the end of a client: how long to wait for a worker that looks at its drafts. */
#define END_MS 5000

struct session_draft {
	struct session_draft *next;
	char *client; /* the name of its connection */
	char *id, *root;
};

void
session_drafts_add_of(struct hub *hub, const char *client, const char *id, const char *root)
{
	struct session_draft *d = memory_zero(sizeof(*d)), **at = &hub->drafts;

	*d = (struct session_draft){
		.client = memory_string(client),
		.id = memory_string(id),
		.root = memory_string(root),
	};
	while (*at != NULL)
		at = &(*at)->next;
	*at = d;
}

void
session_drafts_add(struct connection *conn, const char *id)
{
	session_drafts_add_of(conn->hub, conn->name, id, conn->root);
}

static void
remove_at(struct session_draft **at)
{
	struct session_draft *d = *at;

	*at = d->next;
	free(d->client);
	free(d->id);
	free(d->root);
	free(d);
}

/* A child's name is its parent's name, a slash and its own. */
static bool
is_made_below(const struct session_draft *d, const struct connection *conn)
{
	const size_t len = strlen(conn->name);

	return strncmp(d->client, conn->name, len) == 0 &&
	    (d->client[len] == '\0' || d->client[len] == '/');
}

const char *
session_drafts_root(const struct connection *conn, const char *id)
{
	for (const struct session_draft *d = conn->hub->drafts; d != NULL; d = d->next)
		if (strcmp(d->id, id) == 0 && is_made_below(d, conn))
			return d->root;
	return NULL;
}

void
session_drafts_of_children(const struct connection *conn, session_draft_fn *fn, void *data)
{
	for (const struct session_draft *d = conn->hub->drafts; d != NULL; d = d->next)
		if (is_made_below(d, conn) && d->client[strlen(conn->name)] == '/')
			fn(data, d->client + strlen(conn->name) + 1, d->id);
}

static int
is_it(void *data, const struct koda_drafted *one)
{
	return strcmp(one->id, data) == 0;
}

bool
session_drafts_gone(struct connection *conn, const char *id)
{
	struct session_draft **at = &conn->hub->drafts;
	const char *root = session_drafts_root(conn, id);
	struct koda_error err;

	/* If it cannot be found out, the draft counts as there. */
	if (koda_drafts_visit(root != NULL ? root : conn->root, is_it, (void *)(uintptr_t)id,
		&err) != 0)
		return false;
	if (conn->draft != NULL && strcmp(conn->draft, id) == 0) {
		free(conn->draft);
		conn->draft = NULL;
	}
	while (*at != NULL && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	if (*at != NULL)
		remove_at(at);
	return true;
}

/* ---- the end ---- */

static bool
is_own(const struct session_draft *d, const struct connection *conn)
{
	return strcmp(d->client, conn->name) == 0;
}

/* The client is gone, so nothing else is served for it meanwhile. */
static int
on_wait(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	const uint64_t until = *(const uint64_t *)data, now = monotonic_ms();

	if (now >= until)
		return -1;
	if (timeout_ms < 0 || (uint64_t)timeout_ms > until - now)
		timeout_ms = (int)(until - now);
	return poll(fds, (nfds_t)n, timeout_ms);
}

struct koda_session *
session_drafts_reopen(const struct connection *conn)
{
	struct koda_session_options so = KODA_SESSION_OPTIONS_INIT;
	const struct session_draft *d = conn->hub->drafts;
	static uint64_t until;
	struct koda_error err;

	while (d != NULL && !is_own(d, conn))
		d = d->next;
	if (d == NULL)
		return NULL;
	until = monotonic_ms() + END_MS;
	so.root = conn->root;
	so.mode = conn->mode;
	so.policy = koda_session_policy(conn->ses);
	so.helper_dir = conn->helper_dir;
	so.narrowed = conn->narrowed;
	so.wait = on_wait;
	so.data = &until;
	return koda_session_open(&so, &err);
}

static void
tell_kept(struct connection *conn, const char *id, struct text *why)
{
	text_add(why, "", 1);
	record_draft(conn, id, "kept", why->p);
	fprintf(stderr,
	    "koda-sandbox: draft %s is kept: %s. 'koda-sandbox draft diff %s' shows it, 'draft apply' and 'draft discard' decide on it\n",
	    id, why->p, id);
}

/* Returns whether the draft is gone. */
static bool
end_draft(struct connection *conn, struct koda_session *ses, const char *id)
{
	struct change_set set = { 0 };
	struct text why = { 0 };
	struct koda_error err;
	struct koda_draft *draft = koda_draft_open(ses, id, &err);
	bool gone = false;

	if (draft == NULL && err.code == KODA_INVALID)
		return true;
	if (draft != NULL && change_set_list(&set, draft, conn->root, &err) == 0) {
		change_set_counts(&set, &why);
		gone = set.n_all == 0 && !set.cut && koda_draft_discard(draft, NULL, 0, &err) == 0;
		if (gone)
			record_draft(conn, id, "discarded", "it has no changes");
	} else {
		text_printf(&why, "%s", err.message);
	}
	koda_draft_close(draft);
	if (!gone)
		tell_kept(conn, id, &why);
	change_set_done(&set);
	text_done(&why);
	return gone;
}

void
session_drafts_end(struct connection *conn, struct koda_session *ses)
{
	struct session_draft **at = &conn->hub->drafts;

	while (*at != NULL) {
		if (is_own(*at, conn) && end_draft(conn, ses, (*at)->id))
			remove_at(at);
		else
			at = &(*at)->next;
	}
	koda_session_close(ses);
}

void
session_drafts_free(struct hub *hub)
{
	while (hub->drafts != NULL)
		remove_at(&hub->drafts);
}
