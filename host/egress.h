/*
 * The host's side of egress: which koda-egress-proxy serves which slots. One for each distinct policy of a session,
 * started when the first connection waits on a slot's listening socket (a command that needs no network costs nothing),
 * and again after a death when the next one does: until then connections queue in the kernel. The host keeps each listening
 * socket, never accepts, and parses nothing that a client sent.
 *
 * What a proxy reports is checked like a worker's reply. Refusals become violations of their slot at once.
 */
#ifndef KODA_HOST_EGRESS_H
#define KODA_HOST_EGRESS_H

#include "host/session.h"

#define EGRESS_READY_MS        5000 /* spawn to Ready */
#define EGRESS_BARREN_MAX      5    /* deaths in a row before Ready: no network any more, and it is said */
#define EGRESS_CONNECTIONS_MAX 1024 /* kept for koda_slot_connections, the oldest goes */
#define EGRESS_SYNC_MS         1000

/* One slot's socket. In struct sandbox. */
struct egress_port {
	struct source source; /* the listening socket, while nobody serves it; first */
	int fd;               /* the host's own; -1: there is none */
	struct sandbox *sb;
	struct egress *egress;
	struct egress_port *next;
	uint64_t slot; /* number for this egress */
	bool served;
	struct egress_connections *connections;
};

/* The user's own proxy can be used, or there is none. Called when a session with commands opens. */
int egress_check_environment(struct koda_error *err);

/* The sandbox has booted: watch its socket (taken). */
int egress_serve(struct egress_port *port, struct sandbox *sb, int fd, struct koda_error *err);
/* The sandbox is gone. */
void egress_drop(struct egress_port *port);
/* Take what has been reported (a command has ended: its refusals are there). sync: also what is open now. */
void egress_drain(struct egress_port *port, bool sync);
/* The session closes. */
void egress_close(struct koda_session *ses);
/* In a forked child. */
void egress_abandon(struct koda_session *ses);
uint64_t egress_next_time(const struct koda_session *ses);
void egress_tick(struct koda_session *ses);

/* approve.c: somebody has answered. */
void egress_answer(struct egress *e, uint64_t question, enum koda_scope scope);

#endif
