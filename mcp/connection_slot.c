/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/connection_slot.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/fault.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/session_drafts.h"

/* Opens a slot in the session's draft, or in a new one. */
static struct koda_slot *
open_in_draft(struct connection *conn, struct koda_error *err)
{
	const struct koda_slot_options options = {
		.workspace = KODA_WORKSPACE_DRAFT,
		.draft = conn->draft,
	};
	struct koda_slot *slot = koda_slot_open(conn->ses, &options, err);
	const char *id = slot != NULL ? koda_slot_draft(slot) : "";

	if (slot == NULL || (conn->draft != NULL && strcmp(conn->draft, id) == 0))
		return slot;
	free(conn->draft);
	conn->draft = memory_string(id);
	session_drafts_add(conn, id);
	return slot;
}

struct koda_slot *
connection_slot(struct connection *conn, struct koda_error *err)
{
	/* Closing the session answers the calls under way; without this check they would go on
	 * with what it has freed. */
	if (conn->ending) {
		fault_set(err, KODA_WORKER, 0, "the session has ended");
		return NULL;
	}
	/* Not while other calls still expect answers from it: releasing the slot would discard
	 * them. */
	if (conn->slot_lost && conn->n_calls <= 1) {
		record_news(conn);
		koda_slot_release(conn->slot);
		conn->slot = NULL;
		conn->slot_lost = false;
		conn->seen_connections = conn->seen_violations = 0;
	}
	if (conn->slot != NULL)
		return conn->slot;
	if (conn->reviewing != NULL) {
		fault_set(err, KODA_CONFLICT, 0, "the session is deciding on a draft");
		return NULL;
	}
	/* Only one connection acquires its slot at a time: a second wait, inside the first one,
	 * would use up the first one's time. */
	if (conn->hub->acquiring || conn->hub->is_unwanted(conn->hub, conn)) {
		fault_set(err, KODA_WORKER, 0, "the session's sandbox cannot be started now");
		return NULL;
	}
	conn->acquiring = conn->hub->acquiring = true;
	conn->slot =
	    conn->drafts ? open_in_draft(conn, err) : koda_slot_acquire(conn->ses, NULL, err);
	conn->acquiring = conn->hub->acquiring = false;
	return conn->slot;
}

void
connection_lost_slot(struct connection *conn)
{
	conn->slot_lost = conn->slot != NULL;
}

bool
connection_waits(const struct connection *conn)
{
	return conn->acquiring || (conn->hub->acquiring && (conn->slot == NULL || conn->slot_lost));
}

bool
connection_is_held(const struct connection *conn)
{
	return connection_waits(conn) || conn->reviewing != NULL;
}

int
connection_wait(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	const struct connection *conn = data;

	return conn->hub->wait(conn->hub, conn, fds, n, timeout_ms);
}

struct koda_session *
connection_session_at(struct connection *conn, const char *root, struct koda_error *err)
{
	struct koda_session_options so = KODA_SESSION_OPTIONS_INIT;

	so.root = root;
	so.mode = conn->mode;
	so.policy = koda_session_policy(conn->ses);
	so.helper_dir = conn->helper_dir;
	so.wait = connection_wait;
	so.data = conn;
	so.narrowed = true;
	return koda_session_open(&so, err);
}
