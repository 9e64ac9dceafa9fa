/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: every connection's descriptors and session, signals, and whatever else has a descriptor
 * to wait for. It waits in one place for all of them, and never blocks on a single one. Getting a
 * slot takes seconds in a large project: meanwhile the loop serves all other connections, and from
 * this connection every message that needs no slot.
 */
#ifndef KODA_MCP_SERVER_H
#define KODA_MCP_SERVER_H

#include "mcp/connection_state.h"

struct client;
struct server_watch;

struct server {
	struct hub hub; /* its clients know only this */
	/* The newest client is first: a child, which narrows its parent's session, goes before
	 * the parent. */
	struct client *clients;
	struct client *parent; /* the client that started us: the server ends with it */
	struct server_watch *watches;
	int signal_fd;
	bool signalled;
	/* Counts the turns of the loop. While a connection waits for its slot, inner turns run
	 * inside the current one. The outer turn sees by this number that an inner one has run: its
	 * poll results are out of date then, and it must not use them. */
	unsigned turns;
	bool again; /* the last turn was left early: the next one does not wait */
	/* The error of an inner turn that ends the server; NULL: there was none. */
	struct koda_error *failed;
	struct pollfd *fds;
	size_t n_fds, size;
};

/* Another descriptor to wait for. The callback gets the events that poll() returned. It stays
 * the caller's, until server_unwatch(). */
struct server_watch {
	struct server_watch *next;
	int fd;
	short events;
	void (*ready)(struct server_watch *watch, short revents);
};
void server_watch(struct server *server, struct server_watch *watch);
void server_unwatch(struct server *server, struct server_watch *watch);

/* Adds a client. ended is called when the connection has been freed and everything of it is
 * gone; the descriptors stay the caller's. why is set if this machine cannot enforce what the
 * connection's mode promises; NULL: it was ended, or ended by itself. */
typedef void server_ended_fn(void *data, const struct koda_error *why);
struct client *server_add(struct server *server, struct connection *conn, server_ended_fn *ended,
    void *data);
/* The connection ends at the end of this turn of the loop. */
void server_end_connection(struct server *server, const struct connection *conn);
void server_visit(const struct server *server,
    void (*fn)(void *data, const struct connection *conn), void *data);

/* The caller zero-initialises the server and sets the members of hub that it provides; this creates
 * the rest. Returns -1 with *err set on failure. */
int server_init(struct server *server, struct koda_error *err);
/* Runs until the parent is gone or a signal arrives, and returns 0. Returns -1 with *err set if
 * this machine cannot enforce what the parent's mode promises, or if the loop itself fails. */
int server_run(struct server *server, struct koda_error *err);
/* Ends every client. */
void server_done(struct server *server);

#endif
