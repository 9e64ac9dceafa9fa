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
	char *id;
};

void
session_drafts_add(struct connection *conn, const char *id)
{
	struct session_draft *d = memory_zero(sizeof(*d)), **at = &conn->hub->drafts;

	*d = (struct session_draft){ .client = memory_string(conn->name), .id = memory_string(id) };
	while (*at != NULL)
		at = &(*at)->next;
	*at = d;
}

static void
remove_at(struct session_draft **at)
{
	struct session_draft *d = *at;

	*at = d->next;
	free(d->client);
	free(d->id);
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

bool
session_drafts_has(const struct connection *conn, const char *id)
{
	for (const struct session_draft *d = conn->hub->drafts; d != NULL; d = d->next)
		if (strcmp(d->id, id) == 0 && is_made_below(d, conn))
			return true;
	return false;
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
	struct koda_error err;

	/* If it cannot be found out, the draft counts as there. */
	if (koda_drafts_visit(conn->root, is_it, (void *)(uintptr_t)id, &err) != 0)
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

static void
end_draft(struct connection *conn, struct koda_session *ses, const char *id)
{
	struct change_set set = { 0 };
	struct text why = { 0 };
	struct koda_error err;
	struct koda_draft *draft = koda_draft_open(ses, id, &err);
	bool empty = false;

	if (draft == NULL && err.code == KODA_INVALID)
		return; /* gone already */
	if (draft != NULL && change_set_list(&set, draft, conn->root, &err) == 0) {
		empty = set.n_all == 0 && !set.cut;
		change_set_counts(&set, &why);
		if (empty && koda_draft_discard(draft, NULL, 0, &err) == 0)
			record_draft(conn, id, "discarded", "it has no changes");
	} else {
		text_printf(&why, "%s", err.message);
	}
	koda_draft_close(draft);
	if (!empty)
		tell_kept(conn, id, &why);
	change_set_done(&set);
	text_done(&why);
}

void
session_drafts_end(struct connection *conn, struct koda_session *ses)
{
	struct session_draft **at = &conn->hub->drafts;

	while (*at != NULL) {
		if (is_own(*at, conn))
			end_draft(conn, ses, (*at)->id);
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
