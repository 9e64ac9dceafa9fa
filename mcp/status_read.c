/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/status_read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp/fault.h"
#include "mcp/runtime.h"
#include "mcp/status.h"
#include "shared/base/clock.h"

struct status_server {
	char name[RUNTIME_NAME_LEN + 1];
	int fd; /* -1: it has sent everything */
	char *text;
	size_t len;
};

struct reading {
	int dir;
	struct status_server servers[STATUS_SERVERS_MAX];
	size_t n;
};

/* The size of one read of an answer. */
#define CHUNK 65536

static int
connect_to(void *data, const char *name)
{
	struct reading *reading = data;
	struct status_server *server = &reading->servers[reading->n];
	int fd;

	if (reading->n == STATUS_SERVERS_MAX)
		return 1;
	fd = runtime_connect(reading->dir, name, RUNTIME_STATUS, SOCK_STREAM | SOCK_NONBLOCK);
	/* EAGAIN: its queue is full. The server is running, but does not answer. */
	if (fd < 0 && errno != EAGAIN)
		return 0;
	*server = (struct status_server){ .fd = fd };
	strcpy(server->name, name);
	reading->n++;
	return 0;
}

static void
read_some(struct status_server *server)
{
	char *more = realloc(server->text, server->len + CHUNK);
	ssize_t n = -1;

	if (more != NULL) {
		server->text = more;
		n = recv(server->fd, more + server->len, CHUNK, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
	}
	if (n > 0)
		server->len += (size_t)n;
	if (n <= 0 || server->len > STATUS_BYTES_MAX) {
		close(server->fd);
		server->fd = -1;
	}
}

static void
read_until(struct reading *reading, int64_t deadline)
{
	struct pollfd fds[STATUS_SERVERS_MAX];

	for (;;) {
		int64_t left = deadline - (int64_t)monotonic_ms();
		bool waiting = false;

		for (size_t i = 0; i < reading->n; i++) {
			fds[i] = (struct pollfd){ .fd = reading->servers[i].fd, .events = POLLIN };
			waiting = waiting || fds[i].fd >= 0;
		}
		if (!waiting || left <= 0 || poll(fds, reading->n, (int)left) < 0)
			return;
		for (size_t i = 0; i < reading->n; i++) {
			if (reading->servers[i].fd >= 0 && fds[i].revents != 0)
				read_some(&reading->servers[i]);
		}
	}
}

static json_int_t
pid_of(const json_t *object)
{
	return json_integer_value(json_object_get(object, "pid"));
}

static int
by_pid(const void *a, const void *b)
{
	json_int_t left = pid_of(*(json_t *const *)a), right = pid_of(*(json_t *const *)b);

	return (left > right) - (left < right);
}

/* Returns the server's object, or NULL for one of another version or one that was cut off. */
static json_t *
object_of(const struct status_server *server)
{
	json_t *object =
	    server->text != NULL ? json_loadb(server->text, server->len, 0, NULL) : NULL;

	if (!json_is_object(object) ||
	    json_integer_value(json_object_get(object, "version")) != 1) {
		json_decref(object);
		object = json_object();
		json_object_set_new(object, "silent", json_true());
	}
	json_object_set_new(object, "name", json_string(server->name));
	return object;
}

static json_t *
sorted(struct reading *reading)
{
	json_t *objects[STATUS_SERVERS_MAX], *ret = json_array();

	for (size_t i = 0; i < reading->n; i++)
		objects[i] = object_of(&reading->servers[i]);
	qsort(objects, reading->n, sizeof(objects[0]), by_pid);
	for (size_t i = 0; i < reading->n; i++)
		json_array_append_new(ret, objects[i]);
	return ret;
}

json_t *
status_read_all(struct koda_error *err)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	json_t *ret = NULL;

	if (reading == NULL) {
		fault_set(err, KODA_INTERNAL, ENOMEM, "status");
		return NULL;
	}
	reading->dir = runtime_find(err);
	if (reading->dir < 0 && err->code != KODA_OK) {
		free(reading);
		return NULL;
	}
	if (reading->dir >= 0 && runtime_visit(reading->dir, connect_to, reading) < 0)
		fault_set(err, KODA_IO, errno, "read the runtime directory");
	else
		read_until(reading, monotonic_ms() + STATUS_WAIT_MS);
	if (err->code == KODA_OK)
		ret = sorted(reading);
	for (size_t i = 0; i < reading->n; i++) {
		if (reading->servers[i].fd >= 0)
			close(reading->servers[i].fd);
		free(reading->servers[i].text);
	}
	if (reading->dir >= 0)
		close(reading->dir);
	free(reading);
	return ret;
}
