/*
 * The loop: every connection's descriptors and session, signals, and whatever else has a descriptor to wait for. It waits
 * in one place, for all of it, and never for one of them.
 */
#ifndef KODA_MCP_SERVER_H
#define KODA_MCP_SERVER_H

#include <poll.h>

#include "mcp/connection.h"

struct children;
struct client;
struct record;
struct server_watch;

struct server {
	struct client
	    *clients; /* whoever came last is the first: who narrows goes before who is narrowed */
	struct client *parent; /* the one that started us: its end is ours */
	struct server_watch *watches;
	int signal_fd;
	bool signalled;
	struct pollfd *fds;
	size_t n_fds, size;

	struct record *record;
	struct children *children; /* NULL: there is no place where they could come in */
};

/* Something else to wait for. The callback gets what poll() found. Stays the caller's, until it is taken away. */
struct server_watch {
	struct server_watch *next;
	int fd;
	short events;
	void (*ready)(struct server_watch *watch, short revents);
};
void server_watch(struct server *server, struct server_watch *watch);
void server_unwatch(struct server *server, struct server_watch *watch);

/* A client more. ended is called when the connection has been freed and all of it is gone; its descriptors are the caller's.
 * why: it could not have what its mode promises; NULL: it was ended, or has ended by itself. */
typedef void server_ended_fn(void *data, const struct koda_error *why);
struct client *server_add(struct server *server, struct connection *conn, server_ended_fn *ended,
    void *data);
/* It goes at the end of this turn of the loop. */
void server_end_connection(struct connection *conn);
void server_visit(const struct server *server,
    void (*fn)(void *data, const struct connection *conn), void *data);

/* Zero-initialise what the server is given; the rest is made here. -1 with *err set. */
int server_init(struct server *server, struct koda_error *err);
/* Until the parent has gone or a signal has come: 0; -1 with *err set, when the parent cannot have what its mode promises. */
int server_run(struct server *server, struct koda_error *err);
/* Ends every client. */
void server_done(struct server *server);

#endif
