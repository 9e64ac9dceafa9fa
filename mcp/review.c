/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/review.h"

#include <string.h>

#include "mcp/commands.h"
#include "mcp/connection_slot.h"
#include "mcp/fault.h"
#include "mcp/record.h"
#include "mcp/review_line.h"
#include "mcp/session_drafts.h"
#include "mcp/tool_call.h"

int
review_enter(struct connection *conn, struct koda_error *err)
{
	if (conn->hub->acquiring)
		return fault_set(err, KODA_WORKER, 0,
		    "another session is starting its sandbox: try again");
	conn->acquiring = conn->hub->acquiring = true;
	return 0;
}

void
review_leave(struct connection *conn)
{
	conn->acquiring = conn->hub->acquiring = false;
}

struct koda_draft *
review_open(struct connection *conn, const char *id, struct koda_error *err)
{
	const char *root = session_drafts_root(conn, id);
	struct koda_session *other = NULL;
	struct koda_draft *draft = NULL;

	if (review_enter(conn, err) < 0)
		return NULL;
	if (root != NULL && strcmp(root, conn->root) != 0)
		other = connection_session_at(conn, root, err);
	else
		other = conn->ses;
	if (other != NULL)
		draft = koda_draft_open(other, id, err);
	if (other != conn->ses)
		koda_session_close(other);
	review_leave(conn);
	return draft;
}

void
review_end_slot(struct connection *conn)
{
	struct koda_slot *slot = conn->slot;

	if (slot == NULL)
		return;
	koda_slot_end(slot, NULL);
	record_last_news(conn);
	conn->slot = NULL;
	conn->slot_lost = false;
	conn->seen_connections = conn->seen_violations = 0;
	koda_slot_release(slot);
}

/* ---- the line ---- */

static void
on_cancel(struct tool_call *call)
{
	review_line_leave(call);
	tool_fail(call, KODA_NOT_APPROVED, "cancelled");
}

void
review_wait(struct tool_call *call, review_fn *begin)
{
	review_line_add(call, begin, true);
	call->cancel = on_cancel;
}

static bool
runs_in_background(const struct connection *conn)
{
	const struct command *c = NULL;

	while ((c = commands_next(conn->commands, c)) != NULL)
		if (!c->over)
			return true;
	return false;
}

void
review_soon(struct tool_call *call, review_fn *begin)
{
	review_line_add(call, begin, false);
}

/* Takes the next call whose turn it is out of the line. Returns false if there is none. */
static bool
take_next(struct connection *conn, struct review_waiter *ret)
{
	const bool alone = conn->n_calls == review_line_length(conn);
	const struct review_waiter *w = conn->reviews;

	while (w != NULL && w->alone && !alone)
		w = w->next;
	if (w == NULL)
		return false;
	*ret = *w;
	review_line_leave(w->call);
	ret->call->cancel = NULL;
	return true;
}

void
review_tick(struct connection *conn)
{
	struct review_waiter w;

	if (conn->reviewing != NULL || conn->ending || conn->hub->acquiring || !take_next(conn, &w))
		return;
	if (w.alone && conn->drafts && runs_in_background(conn)) {
		tool_fail(w.call, KODA_CONFLICT,
		    "commands run in the background in this session's draft: they must end first. command_list lists them, and command_stop ends them");
		return;
	}
	if (w.alone) {
		conn->reviewing = w.call;
		if (conn->drafts)
			review_end_slot(conn);
	}
	w.begin(w.call);
}
