/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/connection_out.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp/text.h"

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
