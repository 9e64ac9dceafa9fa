/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcp/approval.h"
#include "mcp/ask.h"
#include "mcp/batch.h"
#include "mcp/call.h"
#include "mcp/commands.h"
#include "mcp/connection_out.h"
#include "mcp/connection_slot.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "mcp/remember.h"
#include "mcp/review.h"
#include "mcp/session_drafts.h"
#include "shared/base/clock.h"

/* Lines of one client before other clients get their turn. */
#define LINES_AT_ONCE 64
/* Fewer lines if they take longer than this (a look at a large tree), so that signals get their
 * turn too. */
#define LINES_AT_ONCE_MS 20
/* ---- in ---- */

static bool
is_full(const struct connection *conn)
{
	return line_queued(&conn->queue) + conn->owed > CONNECTION_HOLD_BYTES;
}

/* Returns true if no more messages can be put off. */
static bool
is_put_off_full(const struct connection *conn)
{
	return conn->put_off_bytes > CONNECTION_HELD_BYTES ||
	    json_array_size(conn->put_off) >= CONNECTION_CALLS_MAX;
}

bool
connection_wants_input(struct connection *conn)
{
	/* Not while lines wait for their turn: many small lines would arrive faster than they
	 * are processed. */
	return !conn->at_end && !conn->broken && !is_full(conn) && !is_put_off_full(conn) &&
	    !line_ready(&conn->reader);
}

void
connection_read(struct connection *conn)
{
	size_t room;
	char *p = line_room(&conn->reader, &room);
	ssize_t n;

	do {
		n = read(conn->in, p, room);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		line_came(&conn->reader, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		conn->at_end = true;
}

bool
connection_has_lines(struct connection *conn)
{
	if (conn->broken || is_full(conn))
		return false;
	if (connection_is_held(conn)) {
		if (is_put_off_full(conn))
			return false;
	} else if (json_array_size(conn->put_off) > 0) {
		return true;
	}
	return line_ready(&conn->reader) || (conn->at_end && conn->reader.from < conn->reader.to);
}

static void
answer_bad(struct connection *conn, const struct rpc *bad)
{
	connection_send(conn, rpc_error(bad->id, bad->code, bad->why, NULL));
}

static void
handle_batch(struct connection *conn, const json_t *messages)
{
	struct batch *batch = batch_new(conn);
	const json_t *message;
	size_t i;

	json_array_foreach(messages, i, message)
	{
		struct rpc rpc;

		rpc_read(message, &rpc);
		if (json_is_array(message)) {
			rpc.kind = RPC_BAD;
			rpc.code = RPC_INVALID_REQUEST;
			snprintf(rpc.why, sizeof(rpc.why), "a batch cannot contain a batch");
		}
		if (rpc.kind == RPC_BAD)
			batch_leave(batch_hold(batch), rpc_error(rpc.id, rpc.code, rpc.why, NULL));
		else
			conn->hub->meaning->handle(conn, batch, &rpc);
	}
	batch_leave(batch, NULL);
}

bool
connection_owes(const struct connection *conn)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(conn->put_off, i, entry)
	{
		if (json_object_get(entry, "answer") != NULL)
			return true;
	}
	return false;
}

static void
remove_put_off(struct connection *conn, size_t i)
{
	conn->put_off_bytes -=
	    json_string_length(json_object_get(json_array_get(conn->put_off, i), "line"));
	json_array_remove(conn->put_off, i);
}

/* Drops the request with that id, which was put off and is now cancelled; it gets no answer, as the
 * protocol allows. Returns false if no request with that id was put off. */
static bool
drop_put_off(struct connection *conn, const json_t *id)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(conn->put_off, i, entry)
	{
		if (json_equal(json_object_get(entry, "request"), id)) {
			remove_put_off(conn, i);
			return true;
		}
	}
	return false;
}

/* A call that has the session for itself may be waiting for this message: an answer of the user, the
 * client calling again with one, or a cancellation. */
static bool
is_for_review(const struct connection *conn, const struct rpc *rpc)
{
	return !connection_waits(conn) &&
	    (rpc->kind == RPC_RESPONSE || conn->hub->meaning->cancels(rpc) != NULL ||
		json_object_get(rpc->params, "requestState") != NULL);
}

/* Puts the message off if it needs the slot that the connection waits for. Messages keep their
 * order. Returns false if the caller has to handle the message now. */
static bool
put_off(struct connection *conn, const struct rpc *rpc, const char *line, size_t len)
{
	const json_t *cancelled;
	json_t *entry;

	if (!connection_is_held(conn) || rpc->kind == RPC_BAD ||
	    !conn->hub->meaning->needs_slot(conn, rpc))
		return false;
	cancelled = conn->hub->meaning->cancels(rpc);
	if (cancelled != NULL && drop_put_off(conn, cancelled))
		return true;
	if (is_for_review(conn, rpc))
		return false;
	entry = json_pack("{s:o}", "line", json_stringn_nocheck(line, len));
	if (rpc->kind == RPC_REQUEST)
		json_object_set_nocheck(entry, "request", (json_t *)(uintptr_t)rpc->id);
	if (rpc->kind == RPC_REQUEST || rpc->kind == RPC_BATCH)
		json_object_set_new_nocheck(entry, "answer", json_true());
	json_array_append_new(conn->put_off, entry);
	conn->put_off_bytes += len;
	return true;
}

static void
handle_line(struct connection *conn, const char *line, size_t len)
{
	struct rpc rpc;
	json_t *value = rpc_parse(line, len, &rpc);

	if (value == NULL) {
		answer_bad(conn, &rpc);
		return;
	}
	rpc_read(value, &rpc);
	if (put_off(conn, &rpc, line, len)) {
		json_decref(value);
		return;
	}
	if (rpc.kind == RPC_BATCH && (conn->version == NULL || !conn->version->batches)) {
		rpc.kind = RPC_BAD;
		rpc.code = RPC_INVALID_REQUEST;
		snprintf(rpc.why, sizeof(rpc.why),
		    "only the protocol's revision 2025-03-26 has batches");
	}
	if (rpc.kind == RPC_BAD)
		answer_bad(conn, &rpc);
	else if (rpc.kind == RPC_BATCH)
		handle_batch(conn, value);
	else
		conn->hub->meaning->handle(conn, NULL, &rpc);
	json_decref(value);
}

/* Handles the first message that was put off. Returns false if there is none, or no slot yet. */
static bool
handle_put_off(struct connection *conn)
{
	json_t *entry;
	const json_t *line;

	if (connection_is_held(conn) || json_array_size(conn->put_off) == 0)
		return false;
	entry = json_incref(json_array_get(conn->put_off, 0));
	line = json_object_get(entry, "line");
	remove_put_off(conn, 0);
	handle_line(conn, json_string_value(line), json_string_length(line));
	json_decref(entry);
	return true;
}

void
connection_process(struct connection *conn)
{
	const uint64_t until = monotonic_ms() + LINES_AT_ONCE_MS;

	for (unsigned i = 0; i < LINES_AT_ONCE && connection_has_lines(conn); i++) {
		enum line_result r;
		const char *line;
		size_t len;

		if (handle_put_off(conn)) {
			if (monotonic_ms() > until)
				return;
			continue;
		}
		r = line_next(&conn->reader, &line, &len);
		if (r == LINE_NONE && conn->at_end)
			r = line_rest(&conn->reader, &line, &len);
		if (r == LINE_WHOLE) {
			handle_line(conn, line, len);
		} else if (r == LINE_TOO_LONG) {
			struct rpc bad = { .code = RPC_PARSE };

			snprintf(bad.why, sizeof(bad.why), "a line may have at most %u bytes",
			    LINE_MAX_BYTES);
			answer_bad(conn, &bad);
		} else {
			return;
		}
		if (monotonic_ms() > until)
			return;
	}
}

/* ---- its session ---- */

static void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	static const enum level levels[] = {
		[KODA_EVENT_SPAWN] = LEVEL_DEBUG,
		[KODA_EVENT_DEATH] = LEVEL_WARNING,
		[KODA_EVENT_DEGRADED] = LEVEL_WARNING,
		[KODA_EVENT_LEFT] = LEVEL_WARNING,
	};

	/* Weaker enforcement is always reported, whether the client shows its log or not. */
	if (kind == KODA_EVENT_DEGRADED || kind == KODA_EVENT_LEFT)
		fprintf(stderr, "koda-sandbox: warning: %s\n", text);
	connection_log(data, levels[kind], text);
}

static void
on_question(void *data, const struct koda_question *question)
{
	approval_question(data, question);
}

struct connection *
connection_new(struct hub *hub, const struct connection_options *options, struct koda_error *err)
{
	struct koda_session_options so = KODA_SESSION_OPTIONS_INIT;
	struct connection *conn = memory_zero(sizeof(*conn));
	struct stat st;

	conn->hub = hub;
	snprintf(conn->name, sizeof(conn->name), "%s", options->name);
	conn->in = options->in;
	conn->out = options->out;
	conn->out_is_socket = fstat(options->out, &st) == 0 && S_ISSOCK(st.st_mode);
	conn->mode = options->mode;
	conn->asks_hosts = options->asks_hosts;
	conn->child = options->child;
	conn->acts = options->acts;
	conn->left = options->left;
	conn->helper_dir = options->helper_dir;
	conn->narrowed = options->narrowed;
	conn->drafts = options->drafts && options->mode != KODA_PLAN;
	conn->judged = options->judged && options->mode == KODA_AUTO;
	conn->level = LEVEL_WARNING;
	conn->root = memory_string(options->root);
	so.root = options->root_by != NULL ? options->root_by : options->root;
	so.mode = options->mode;
	so.policy = options->policy;
	so.helper_dir = options->helper_dir;
	so.approve = on_question;
	so.event = on_event;
	so.wait = connection_wait;
	so.data = conn;
	so.commands = true;
	so.narrowed = options->narrowed;
	conn->ses = koda_session_open(&so, err);
	if (conn->ses == NULL) {
		connection_free(conn);
		return NULL;
	}
	conn->put_off = json_array();
	conn->approvals = approval_new(conn);
	conn->remembered = remember_new();
	conn->commands = commands_new(conn);
	return conn;
}

uint64_t
connection_tick(struct connection *conn, uint64_t now_ms)
{
	uint64_t commands, asks;

	review_tick(conn);
	commands = commands_tick(conn->commands, now_ms);
	asks = asks_tick(conn, now_ms);
	return commands < asks ? commands : asks;
}

void
connection_stop_asking(struct connection *conn)
{
	approval_end(conn->approvals);
	connection_forget_asks(conn);
}

void
connection_cancel_all(struct connection *conn)
{
	struct tool_call *call = conn->calls;

	/* Cancelling one call may end others, so start again. */
	while (call != NULL) {
		bool was = call->mute && call->cancel == NULL;

		if (!was)
			call_cancel(call);
		call = was ? call->next : conn->calls;
	}
}

static void
close_session(struct connection *conn)
{
	struct koda_session *after = session_drafts_reopen(conn);

	koda_session_close(conn->ses);
	if (after != NULL)
		session_drafts_end(conn, after);
	if (conn->left != NULL)
		conn->left(conn->child, conn);
}

void
connection_free(struct connection *conn)
{
	conn->broken = true; /* answers from here on are discarded */
	conn->ending = true; /* and nothing new is begun */
	if (conn->approvals != NULL)
		approval_end(conn->approvals);
	connection_cancel_all(conn);
	connection_forget_asks(conn);
	if (conn->ses != NULL) {
		/* Ends the commands first, so that what they planted in their last moment is
		 * logged too. */
		if (conn->slot != NULL)
			koda_slot_end(conn->slot, NULL);
		record_last_news(conn);
		if (conn->child != NULL)
			record_client(conn, "left");
	}
	conn->slot = NULL;
	/* Closing the session answers the calls under way. */
	if (conn->ses != NULL)
		close_session(conn);
	while (conn->calls != NULL)
		call_answer(conn->calls, json_null());
	if (conn->commands != NULL)
		commands_free(conn->commands);
	if (conn->approvals != NULL)
		approval_free(conn->approvals);
	if (conn->remembered != NULL)
		remember_free(conn->remembered);
	json_decref(conn->put_off);
	line_done(&conn->reader);
	line_queue_done(&conn->queue);
	free(conn->draft);
	free(conn->root);
	free(conn);
}
