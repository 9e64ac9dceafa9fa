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
#include "mcp/commands.h"
#include "mcp/fault.h"
#include "mcp/memory.h"
#include "mcp/methods.h"
#include "mcp/record.h"
#include "mcp/remember.h"
#include "mcp/server.h"
#include "mcp/text.h"
#include "shared/base/clock.h"

/* Lines of one client before other clients get their turn. */
#define LINES_AT_ONCE 64
/* Fewer lines if they take longer than this (a look at a large tree), so that signals get their
 * turn too. */
#define LINES_AT_ONCE_MS 20
/* What a blocking descriptor accepts without blocking once it polls writable (POSIX: PIPE_BUF,
 * of a pipe). */
#define SURE_BYTES 4096

static const char *const level_names[N_LEVELS] = { "debug", "info", "notice", "warning", "error",
	"critical", "alert", "emergency" };

const char *
level_name(enum level level)
{
	return level_names[level];
}

/* ---- out ---- */

static void
queue_message(struct connection *conn, json_t *message)
{
	char *line = json_dumps(message, JSON_COMPACT);
	size_t len = line != NULL ? strlen(line) : 0;

	if (line != NULL && line_queued(&conn->queue) + len < CONNECTION_QUEUE_BYTES) {
		line_put(&conn->queue, line, len);
	} else {
		/* Send a short error instead. It is dropped too if the client leaves twice the
		 * limit unread. */
		json_t *error = rpc_error(json_object_get(message, "id"), RPC_INTERNAL,
		    line == NULL ? "the answer cannot be encoded"
				 : "the client does not read its answers",
		    NULL);

		free(line);
		line = json_dumps(error, JSON_COMPACT);
		json_decref(error);
		if (line_queued(&conn->queue) < 2 * CONNECTION_QUEUE_BYTES)
			line_put(&conn->queue, line, strlen(line));
	}
	free(line);
	json_decref(message);
}

void
connection_send(struct connection *conn, json_t *message)
{
	if (conn->broken)
		json_decref(message);
	else
		queue_message(conn, message);
}

/* Never blocks. The flags of the descriptor must not be changed, because it may be shared with
 * other processes. */
static ssize_t
write_some(const struct connection *conn, const char *p, size_t len)
{
	struct pollfd pfd = { .fd = conn->out, .events = POLLOUT };

	if (conn->out_is_socket)
		return send(conn->out, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (poll(&pfd, 1, 0) != 1 || (pfd.revents & (POLLOUT | POLLERR | POLLHUP)) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(conn->out, p, len < SURE_BYTES ? len : SURE_BYTES);
}

void
connection_write(struct connection *conn)
{
	const char *p;
	size_t len;

	while (!conn->broken && (p = line_peek(&conn->queue, &len)) != NULL) {
		ssize_t n = write_some(conn, p, len);

		if (n >= 0) {
			line_drop(&conn->queue, (size_t)n);
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return;
		conn->broken = true;
	}
	if (conn->broken)
		line_queue_done(&conn->queue);
}

void
connection_log(struct connection *conn, enum level level, const char *text)
{
	json_t *params;

	/* Notifications are dropped before they delay answers. With rounds each request says how
	 * much of the log it wants, and no event here belongs to a request. */
	if (conn->phase == PHASE_NEW || conn->version->rounds || level < conn->level ||
	    line_queued(&conn->queue) > CONNECTION_HOLD_BYTES)
		return;
	params = json_object();
	json_object_set_new_nocheck(params, "level", json_string_nocheck(level_name(level)));
	json_object_set_new_nocheck(params, "logger", json_string_nocheck("koda-sandbox"));
	json_object_set_new_nocheck(params, "data", text_json_string(text));
	connection_send(conn, rpc_notification("notifications/message", params));
}

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
	if (connection_waits(conn)) {
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
			methods_handle(conn, batch, &rpc);
	}
	batch_leave(batch, NULL);
}

bool
connection_waits(const struct connection *conn)
{
	return conn->acquiring ||
	    (conn->server->acquiring && (conn->slot == NULL || conn->slot_lost));
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

/* Puts the message off if it needs the slot that the connection waits for. Messages keep their
 * order. Returns false if the caller has to handle the message now. */
static bool
put_off(struct connection *conn, const struct rpc *rpc, const char *line, size_t len)
{
	const json_t *cancelled;
	json_t *entry;

	if (!connection_waits(conn) || rpc->kind == RPC_BAD || !methods_needs_slot(conn, rpc))
		return false;
	cancelled = methods_cancels(rpc);
	if (cancelled != NULL && drop_put_off(conn, cancelled))
		return true;
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
		methods_handle(conn, NULL, &rpc);
	json_decref(value);
}

/* Handles the first message that was put off. Returns false if there is none, or no slot yet. */
static bool
handle_put_off(struct connection *conn)
{
	json_t *entry;
	const json_t *line;

	if (connection_waits(conn) || json_array_size(conn->put_off) == 0)
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

static int
on_wait(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	const struct connection *conn = data;

	return server_wait(conn->server, conn, fds, n, timeout_ms);
}

struct connection *
connection_new(struct server *server, const struct connection_options *options,
    struct koda_error *err)
{
	struct koda_session_options so = KODA_SESSION_OPTIONS_INIT;
	struct connection *conn = memory_zero(sizeof(*conn));
	struct stat st;

	conn->server = server;
	snprintf(conn->name, sizeof(conn->name), "%s", options->name);
	conn->in = options->in;
	conn->out = options->out;
	conn->out_is_socket = fstat(options->out, &st) == 0 && S_ISSOCK(st.st_mode);
	conn->mode = options->mode;
	conn->asks_hosts = options->asks_hosts;
	conn->child = options->child;
	conn->level = LEVEL_WARNING;
	conn->root = memory_string(options->root);
	so.root = options->root_by != NULL ? options->root_by : options->root;
	so.mode = options->mode;
	so.policy = options->policy;
	so.helper_dir = options->helper_dir;
	so.approve = on_question;
	so.event = on_event;
	so.wait = on_wait;
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
	/* Only one connection acquires its slot at a time: a second wait, inside the first one,
	 * would use up the first one's time. */
	if (conn->server->acquiring || server_is_unwanted(conn)) {
		fault_set(err, KODA_WORKER, 0, "the session's sandbox cannot be started now");
		return NULL;
	}
	conn->acquiring = conn->server->acquiring = true;
	conn->slot = koda_slot_acquire(conn->ses, NULL, err);
	conn->acquiring = conn->server->acquiring = false;
	return conn->slot;
}

void
connection_lost_slot(struct connection *conn)
{
	conn->slot_lost = conn->slot != NULL;
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
	struct call *call = conn->calls;

	/* Cancelling one call may end others, so start again. */
	while (call != NULL) {
		bool was = call->mute && call->cancel == NULL;

		if (!was)
			call_cancel(call);
		call = was ? call->next : conn->calls;
	}
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
		koda_session_close(conn->ses);
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
	free(conn->root);
	free(conn);
}
