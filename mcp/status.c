/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "mcp/door.h"
#include "mcp/fault.h"
#include "shared/base/clock.h"
#include "show/visible.h"

struct status_client {
	int fd; /* -1: free */
	char *text;
	size_t len, sent;
	int64_t until;
};

struct status {
	struct door door;
	status_fill_fn *fill;
	void *data;
	struct status_client clients[STATUS_CLIENTS_MAX];
};

_Static_assert(STATUS_CLIENTS_MAX <= DOOR_GUESTS_MAX, "the door has room for all");

/* ---- a snapshot ---- */

struct status_snapshot {
	json_t *root;
	json_int_t left_out;
};

static json_t *
text(const char *s)
{
	char shown[VISIBLE_LOSSY_SIZE(STATUS_TEXT_MAX)];

	if (s == NULL)
		return json_string("");
	return json_stringn_nocheck(shown, visible_lossy(s, strlen(s), STATUS_TEXT_MAX, shown));
}

static json_t *
number(uint64_t value)
{
	return json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX);
}

/* Adds a row to the list. Returns NULL if there is no room. */
static json_t *
add_row(struct status_snapshot *snapshot, const char *list)
{
	json_t *rows = json_object_get(snapshot->root, list), *row;

	if (json_array_size(rows) >= STATUS_ROWS_MAX) {
		snapshot->left_out++;
		return NULL;
	}
	row = json_object();
	return json_array_append_new(rows, row) == 0 ? row : NULL;
}

void
status_add_session(struct status_snapshot *snapshot, const struct status_session *session)
{
	const struct koda_stats *stats = &session->stats;
	json_t *row = add_row(snapshot, "sessions");

	json_object_set_new(row, "name", text(session->name));
	json_object_set_new(row, "root", text(session->root));
	json_object_set_new(row, "mode", text(session->mode));
	json_object_set_new(row, "child", json_boolean(session->child));
	json_object_set_new(row, "slots", number(stats->slots));
	json_object_set_new(row, "workers", number(stats->workers));
	json_object_set_new(row, "spawns", number(stats->spawns));
	json_object_set_new(row, "respawns", number(stats->respawns));
	json_object_set_new(row, "calls", number(stats->calls));
	json_object_set_new(row, "refusals", number(stats->refusals));
	json_object_set_new(row, "recovered", number(stats->recovered));
	json_object_set_new(row, "violations", number(session->violations));
}

/* Returns the resident memory in KiB, or 0 if the process is gone. It is the second number in
 * statm, in pages. */
static uint64_t
resident_kib(pid_t pid)
{
	char path[64], line[256], *second;
	unsigned long long pages = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fgets(line, sizeof(line), f) != NULL && (second = strchr(line, ' ')) != NULL)
		pages = strtoull(second, NULL, 10);
	fclose(f);
	return pages * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

void
status_add_worker(struct status_snapshot *snapshot, const char *session, pid_t pid)
{
	json_t *row = add_row(snapshot, "workers");

	json_object_set_new(row, "session", text(session));
	json_object_set_new(row, "pid", json_integer(pid));
	json_object_set_new(row, "rss_kib", number(resident_kib(pid)));
}

void
status_add_command(struct status_snapshot *snapshot, const char *session, const char *line,
    double seconds)
{
	json_t *row = add_row(snapshot, "commands");

	json_object_set_new(row, "session", text(session));
	json_object_set_new(row, "command", text(line));
	json_object_set_new(row, "seconds", json_real(seconds));
}

void
status_add_connection(struct status_snapshot *snapshot, const char *session,
    const struct koda_connection *connection)
{
	json_t *row = add_row(snapshot, "connections");

	json_object_set_new(row, "session", text(session));
	json_object_set_new(row, "host", text(connection->host));
	json_object_set_new(row, "port", json_integer(connection->port));
	json_object_set_new(row, "verdict",
	    text(koda_connection_outcome_name(connection->outcome)));
	json_object_set_new(row, "open", json_boolean(connection->open));
	json_object_set_new(row, "bytes_up", number(connection->up));
	json_object_set_new(row, "bytes_down", number(connection->down));
}

void
status_add_tool(struct status_snapshot *snapshot, const char *name, const struct latency *latency)
{
	json_t *row = add_row(snapshot, "tools");

	json_object_set_new(row, "name", text(name));
	json_object_set_new(row, "calls", number(latency->calls));
	json_object_set_new(row, "p50_us", number(latency_quantile(latency, 500)));
	json_object_set_new(row, "p99_us", number(latency_quantile(latency, 990)));
}

void
status_add_number(struct status_snapshot *snapshot, const char *name, uint64_t value)
{
	json_t *numbers = json_object_get(snapshot->root, "numbers");

	if (json_object_size(numbers) < STATUS_ROWS_MAX)
		json_object_set_new(numbers, name, number(value));
}

char *
status_print(status_fill_fn *fill, void *data)
{
	static const char *const lists[] = { "sessions", "workers", "commands", "connections",
		"tools" };
	struct status_snapshot snapshot = { .root = json_object() };
	char *ret;

	json_object_set_new(snapshot.root, "version", json_integer(1));
	json_object_set_new(snapshot.root, "pid", json_integer(getpid()));
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		json_object_set_new(snapshot.root, lists[i], json_array());
	json_object_set_new(snapshot.root, "numbers", json_object());
	fill(data, &snapshot);
	json_object_set_new(snapshot.root, "left_out", json_integer(snapshot.left_out));
	ret = json_dumps(snapshot.root, JSON_COMPACT);
	json_decref(snapshot.root);
	return ret;
}

/* ---- clients ---- */

static void
drop(struct status_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	free(client->text);
	*client = (struct status_client){ .fd = -1 };
}

/* Sends what fits now; the rest follows when the client has read. */
static void
send_some(struct status_client *client)
{
	ssize_t n = send(client->fd, client->text + client->sent, client->len - client->sent,
	    MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		client->sent += (size_t)n;
	if (n < 0 || client->sent == client->len)
		drop(client);
}

static void
take_client(struct status *status)
{
	int fd = door_accept(&status->door);
	struct status_client *client = NULL;
	unsigned i;

	if (fd < 0)
		return;
	for (i = 0; i < STATUS_CLIENTS_MAX && client == NULL; i++)
		client = status->clients[i].fd < 0 ? &status->clients[i] : NULL;
	if (client == NULL || !runtime_peer_is_us(fd)) {
		close(fd);
		return;
	}
	*client = (struct status_client){ .fd = fd,
		.text = status_print(status->fill, status->data),
		.until = boottime_s() + STATUS_READ_SECONDS };
	client->len = client->text != NULL ? strlen(client->text) : 0;
	if (client->len == 0 || client->len > STATUS_BYTES_MAX) {
		drop(client);
		return;
	}
	send_some(client);
	if (client->fd >= 0 && door_watch(&status->door, fd, EPOLLOUT, i - 1) < 0)
		drop(client);
}

static void
on_timer(struct status *status)
{
	int64_t now = boottime_s();

	for (size_t i = 0; i < STATUS_CLIENTS_MAX; i++) {
		if (status->clients[i].fd >= 0 && status->clients[i].until <= now)
			drop(&status->clients[i]);
	}
	door_timer(&status->door);
}

static void
set_timer(struct status *status)
{
	int64_t first = 0;

	for (size_t i = 0; i < STATUS_CLIENTS_MAX; i++) {
		const struct status_client *client = &status->clients[i];

		if (client->fd >= 0 && (first == 0 || client->until < first))
			first = client->until;
	}
	door_wake_at(&status->door, first);
}

void
status_dispatch(struct status *status)
{
	unsigned events[DOOR_EVENTS_MAX];
	const size_t n = door_events(&status->door, events);

	for (size_t i = 0; i < n; i++) {
		const unsigned what = events[i];

		if (what == DOOR_LISTENER)
			take_client(status);
		else if (what == DOOR_TIMER)
			on_timer(status);
		else if (status->clients[what].fd >= 0)
			send_some(&status->clients[what]);
	}
	set_timer(status);
}

/* ---- creation and end ---- */

struct status *
status_new(struct runtime *rt, status_fill_fn *fill, void *data, struct koda_error *err)
{
	struct status *status = calloc(1, sizeof(*status));

	if (status == NULL) {
		fault_set(err, KODA_INTERNAL, ENOMEM, "status");
		return NULL;
	}
	status->fill = fill;
	status->data = data;
	for (size_t i = 0; i < STATUS_CLIENTS_MAX; i++)
		status->clients[i].fd = -1;
	if (door_open(&status->door, rt, RUNTIME_STATUS, SOCK_STREAM, err) < 0) {
		status_free(status);
		return NULL;
	}
	return status;
}

void
status_free(struct status *status)
{
	if (status == NULL)
		return;
	for (size_t i = 0; i < STATUS_CLIENTS_MAX; i++)
		drop(&status->clients[i]);
	door_done(&status->door);
	free(status);
}

int
status_fd(const struct status *status)
{
	return status->door.poll;
}
