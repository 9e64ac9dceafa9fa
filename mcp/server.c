/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/server.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "mcp/connection.h"
#include "mcp/connection_out.h"
#include "mcp/connection_slot.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "shared/base/clock.h"

/* After the end of its input a client still gets the answers under way, if they do not take
 * long: a client that closes us waits about two seconds before it uses force. */
#define LEAVING_MS 1500
#define FDS_EACH   3

struct client {
	struct client *next;
	struct connection *conn;
	server_ended_fn *ended;
	void *data;
	bool done;
	struct koda_error *why; /* NULL: no error */
	bool prepared;          /* acquiring the slot was tried */
	uint64_t leaving_till;  /* 0: its input is still open */
	size_t first;           /* index of its descriptors in the poll set */
};

void
server_watch(struct server *server, struct server_watch *watch)
{
	watch->next = server->watches;
	server->watches = watch;
}

void
server_unwatch(struct server *server, struct server_watch *watch)
{
	struct server_watch **at = &server->watches;

	while (*at != NULL && *at != watch)
		at = &(*at)->next;
	if (*at == watch)
		*at = watch->next;
}

struct client *
server_add(struct server *server, struct connection *conn, server_ended_fn *ended, void *data)
{
	struct client *client = memory_zero(sizeof(*client));

	*client = (struct client){
		.next = server->clients,
		.conn = conn,
		.ended = ended,
		.data = data,
	};
	server->clients = client;
	return client;
}

static struct client *
client_of(const struct server *server, const struct connection *conn)
{
	struct client *client = server->clients;

	while (client->conn != conn)
		client = client->next;
	return client;
}

void
server_end_connection(struct server *server, const struct connection *conn)
{
	client_of(server, conn)->done = true;
}

void
server_visit(const struct server *server, void (*fn)(void *data, const struct connection *conn),
    void *data)
{
	for (const struct client *c = server->clients; c != NULL; c = c->next)
		fn(data, c->conn);
}

/* ---- waiting ---- */

static void
add_fd(struct server *server, int fd, short events)
{
	if (server->n_fds == server->size) {
		server->size = server->size > 0 ? 2 * server->size : 16;
		server->fds = memory_resize(server->fds, server->size * sizeof(*server->fds));
	}
	server->fds[server->n_fds++] = (struct pollfd){ .fd = fd, .events = events };
}

/* Returns the time until which to wait at most. */
static uint64_t
prepare_client(struct server *server, struct client *client, uint64_t now)
{
	struct connection *conn = client->conn;
	const bool waits = connection_waits(conn);
	uint64_t until;

	client->first = server->n_fds;
	if (client->done) {
		for (int i = 0; i < FDS_EACH; i++)
			add_fd(server, -1, 0);
		return UINT64_MAX;
	}
	/* connection_tick() may need the slot that the connection is waiting for. */
	until = waits ? UINT64_MAX : connection_tick(conn, now);
	add_fd(server, connection_wants_input(conn) ? conn->in : -1, POLLIN);
	/* Also with nothing to write: poll() reports POLLERR even without events, when the
	 * reader is gone. */
	add_fd(server, conn->out, line_queued(&conn->queue) > 0 ? POLLOUT : 0);
	add_fd(server, conn->acquiring ? -1 : koda_session_fd(conn->ses), POLLIN);
	if (!waits && client->leaving_till != 0 && client->leaving_till < until)
		until = client->leaving_till;
	return connection_has_lines(conn) ? now : until;
}

static int
prepare(struct server *server)
{
	uint64_t now = monotonic_ms(), until = UINT64_MAX;

	server->n_fds = 0;
	add_fd(server, server->signal_fd, POLLIN);
	for (struct client *c = server->clients; c != NULL; c = c->next) {
		uint64_t t = prepare_client(server, c, now);

		until = t < until ? t : until;
	}
	for (struct server_watch *w = server->watches; w != NULL; w = w->next)
		add_fd(server, w->fd, w->events);
	if (server->again)
		return 0;
	if (until == UINT64_MAX)
		return -1;
	if (until <= now)
		return 0;
	return until - now < INT_MAX ? (int)(until - now) : INT_MAX;
}

/* ---- serving ---- */

static void
serve_client(struct server *server, struct client *client)
{
	struct connection *conn = client->conn;
	/* Copies, because processing a line may run an inner turn, which fills the set again. */
	const struct pollfd in = server->fds[client->first], out = server->fds[client->first + 1],
			    ses = server->fds[client->first + 2];
	struct koda_error err;

	if (out.revents & (POLLERR | POLLHUP | POLLNVAL))
		conn->broken = true;
	if (in.revents & POLLNVAL)
		conn->at_end = true;
	if (in.fd >= 0 && in.revents & (POLLIN | POLLHUP | POLLERR) && !conn->at_end)
		connection_read(conn);
	connection_process(conn);
	if (ses.revents != 0)
		koda_session_dispatch(conn->ses, 0, &err);
	if (!conn->acquiring)
		record_news(conn);
	connection_write(conn);
}

/* Ends the client if its output has failed, or if, after the end of its input, it has all its
 * answers or has waited too long. */
static void
look_at_end(struct client *client, uint64_t now)
{
	struct connection *conn = client->conn;
	const bool all_read =
	    conn->at_end && !connection_has_lines(conn) && conn->reader.from == conn->reader.to;

	if (conn->broken ||
	    (!connection_waits(conn) && client->leaving_till != 0 && now >= client->leaving_till)) {
		client->done = true;
		return;
	}
	if (!conn->at_end)
		return;
	if (connection_waits(conn)) {
		/* It ends now if it has all its answers; otherwise it gets the rest when the slot
		 * is there. */
		client->done = all_read && conn->n_calls == 0 && line_queued(&conn->queue) == 0 &&
		    !connection_owes(conn);
		return;
	}
	if (client->leaving_till == 0)
		client->leaving_till = now + LEAVING_MS;
	if (!all_read)
		return;
	/* The input has ended, so no question can be answered. */
	connection_stop_asking(conn);
	if (conn->n_calls == 0 && line_queued(&conn->queue) == 0)
		client->done = true;
}

static void
free_client(struct server *server, struct client *client)
{
	struct client **at = &server->clients;

	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	connection_free(client->conn);
	if (client->ended != NULL)
		client->ended(client->data, client->why);
	free(client->why);
	free(client);
}

/* A child's name is its parent's name, a slash and its own. */
static bool
is_same_or_below(const struct connection *conn, const struct connection *parent)
{
	const size_t len = strlen(parent->name);

	return strncmp(conn->name, parent->name, len) == 0 &&
	    (conn->name[len] == '\0' || conn->name[len] == '/');
}

/* Returns true if the connection, or a child of it, is acquiring its slot: then functions further
 * up the stack still use the connection, and it must not be freed. */
static bool
is_in_use(const struct server *server, const struct connection *conn)
{
	for (const struct client *c = server->clients; c != NULL; c = c->next)
		if (c->conn->acquiring && is_same_or_below(c->conn, conn))
			return true;
	return false;
}

static bool
free_one(struct server *server)
{
	struct client *c = server->clients;

	while (c != NULL && (!c->done || c == server->parent || is_in_use(server, c->conn)))
		c = c->next;
	if (c != NULL)
		free_client(server, c);
	return c != NULL;
}

/* Restarts after each one, because its end may end others. */
static void
free_done(struct server *server)
{
	while (free_one(server))
		continue;
}

static bool
is_client_unwanted(const struct server *server, const struct client *client)
{
	if (server->signalled || server->failed != NULL || server->parent->done || client->done)
		return true;
	/* If its parent has ended, the client ends too. */
	for (const struct client *c = server->clients; c != NULL; c = c->next)
		if (c->done && is_same_or_below(client->conn, c->conn))
			return true;
	return false;
}

static struct server *
server_of(struct hub *hub)
{
	return (struct server *)((char *)hub - offsetof(struct server, hub));
}

static bool
is_unwanted(struct hub *hub, const struct connection *conn)
{
	const struct server *server = server_of(hub);

	return is_client_unwanted(server, client_of(server, conn));
}

/*
 * Acquires the slot after initialize has been answered: building the kernel sandbox takes longer
 * than the start may. So the first call finds it ready, and a machine that cannot do what the mode
 * promises is reported before the first request needs it.
 */
static int
prepare_slot(const struct server *server, struct client *client, struct koda_error *err)
{
	struct connection *conn = client->conn;

	if (client->prepared || conn->phase == PHASE_NEW || line_queued(&conn->queue) > 0 ||
	    server->hub.acquiring)
		return 0;
	client->prepared = true;
	if (connection_slot(conn, err) != NULL || is_client_unwanted(server, client))
		return 0;
	connection_log(conn, LEVEL_CRITICAL, err->message);
	connection_write(conn);
	/* An error that will not go away ends the client; otherwise the call that needs the slot
	 * reports it. */
	return err->code == KODA_UNSUPPORTED || err->code == KODA_INVALID ? -1 : 0;
}

/* Serves each client once. Stops if an inner turn has run meanwhile: that turn has served all
 * clients already. */
static int
serve_all(struct server *server, struct koda_error *err)
{
	const unsigned turn = server->turns;
	uint64_t now = monotonic_ms();
	int r = 0;

	for (struct client *c = server->clients; c != NULL && turn == server->turns; c = c->next) {
		if (!c->done)
			serve_client(server, c);
	}
	for (struct client *c = server->clients; c != NULL && r == 0 && turn == server->turns;
	     c = c->next) {
		look_at_end(c, now);
		r = c->done ? 0 : prepare_slot(server, c, err);
		if (r < 0 && c != server->parent) {
			c->done = true;
			c->why = memory_copy(err, sizeof(*err));
			r = 0;
		}
	}
	return r;
}

/* Returns true if a client has ended but was not freed, because functions further up the stack still
 * use it. Until then no other client can connect in its place. */
static bool
is_any_ending(const struct server *server)
{
	for (const struct client *c = server->clients; c != NULL; c = c->next)
		if (c->done && c != server->parent)
			return true;
	return false;
}

static void
serve_watches(struct server *server, size_t first, size_t end)
{
	const unsigned turn = server->turns;

	/* A callback may remove its own watch, or others, so each is looked up by its
	 * descriptor. */
	for (size_t i = first; i < end && turn == server->turns && !is_any_ending(server); i++) {
		struct server_watch *w = server->watches;

		while (w != NULL && w->fd != server->fds[i].fd)
			w = w->next;
		if (w == NULL || server->fds[i].revents == 0)
			continue;
		w->ready(w, server->fds[i].revents);
		/* A client that has gone makes room for one that connects in the same turn,
		 * maybe with the same token: the endpoint was watched first, and so comes last
		 * here. */
		free_done(server);
	}
}

/* Runs one turn of the loop. It also waits for the n descriptors of `also`, and for at most most_ms
 * (-1: no limit). */
static int
turn(struct server *server, struct pollfd *also, size_t n, int most_ms, struct koda_error *err)
{
	size_t n_clients = 0, end;
	int timeout, r;
	unsigned turn;

	/* prepare() calls connection_tick(), which may run an inner turn: then the set has to be
	 * prepared again. */
	do {
		turn = ++server->turns;
		timeout = prepare(server);
	} while (turn != server->turns);
	end = server->n_fds;
	server->again = false;
	for (struct client *c = server->clients; c != NULL; c = c->next)
		n_clients++;
	for (size_t i = 0; i < n; i++)
		add_fd(server, also[i].fd, also[i].events);
	if (timeout < 0 || (most_ms >= 0 && most_ms < timeout))
		timeout = most_ms;
	r = poll(server->fds, server->n_fds, timeout);
	if (r < 0 && errno != EINTR) {
		*err = (struct koda_error){ .code = KODA_INTERNAL, .errnum = errno };
		snprintf(err->message, sizeof(err->message), "poll: %s", strerror(err->errnum));
		return -1;
	}
	for (size_t i = 0; r <= 0 && i < server->n_fds; i++)
		server->fds[i].revents = 0;
	for (size_t i = 0; i < n; i++)
		also[i].revents = server->fds[end + i].revents;
	if (server->fds[0].revents != 0)
		server->signalled = true;
	if (server->signalled)
		return 0;
	if (serve_all(server, err) < 0)
		return -1;
	server->again = turn != server->turns;
	if (server->again)
		return 0;
	free_done(server);
	serve_watches(server, 1 + FDS_EACH * n_clients, end);
	server->again = turn != server->turns;
	return 0;
}

static int
wait_for(struct hub *hub, const struct connection *conn, struct pollfd *fds, size_t n,
    int timeout_ms)
{
	struct server *server = server_of(hub);
	const struct client *client = client_of(server, conn);
	struct koda_error err;
	int found = 0;

	if (is_client_unwanted(server, client))
		return -1;
	if (turn(server, fds, n, timeout_ms, &err) < 0 && server->failed == NULL)
		server->failed = memory_copy(&err, sizeof(err));
	if (is_client_unwanted(server, client))
		return -1;
	for (size_t i = 0; i < n; i++)
		found += fds[i].revents != 0;
	return found;
}

/* Signals are read from a descriptor, because a handler could interrupt the library in the
 * middle of something. SIGPIPE is blocked too, but not read: a write returns EPIPE. */
static int
open_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return fd;
}

int
server_init(struct server *server, struct koda_error *err)
{
	server->hub.wait = wait_for;
	server->hub.is_unwanted = is_unwanted;
	server->signal_fd = open_signals();
	if (server->signal_fd >= 0)
		return 0;
	*err = (struct koda_error){ .code = KODA_INTERNAL, .errnum = errno };
	snprintf(err->message, sizeof(err->message), "set up signals: %s", strerror(err->errnum));
	return -1;
}

int
server_run(struct server *server, struct koda_error *err)
{
	int r = 0;

	while (r == 0 && !server->signalled && !server->parent->done && server->failed == NULL)
		r = turn(server, NULL, 0, -1, err);
	if (server->failed == NULL)
		return r;
	*err = *server->failed;
	return -1;
}

void
server_done(struct server *server)
{
	while (server->clients != NULL)
		free_client(server, server->clients);
	close(server->signal_fd);
	free(server->failed);
	free(server->fds);
}
