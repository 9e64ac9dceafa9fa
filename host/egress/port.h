/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening socket of one slot, on which its commands connect. The host keeps it and never
 * accepts: it only notices that a connection waits while no proxy serves the socket, and keeps what
 * the proxy reports on the connections.
 */
#ifndef KODA_HOST_EGRESS_PORT_H
#define KODA_HOST_EGRESS_PORT_H

#include "host/context/violations.h"
#include "host/egress/connections.h"
#include "host/egress/process.h"

struct egress;

/* What a port is told about its slot. */
struct egress_slot {
	struct koda_session *ses;
	struct koda_policy *policy;
	struct violations *violations;
	enum wire_consent consent;
	/* The command to blame for a connection, or "". */
	const char *(*blame)(const void *data);
	const void *data;
};

/* In struct sandbox. */
struct egress_port {
	struct source source; /* the listening socket, while no proxy serves it; first */
	int fd;               /* owned by the host; -1: none */
	struct egress_slot of;
	struct egress *egress; /* NULL: none (yet) */
	struct egress_port *next;
	uint64_t slot; /* number within this egress */
	bool served;
	struct connections *connections; /* what the proxy reported; NULL: nothing yet */
};

/* For all ports of an egress. watched: watch the sockets, so that the next connection starts a
 * proxy; otherwise stop watching them. */
void port_watch_all(struct egress_port *first, struct loop *loop, bool watched);
/* The proxy that served them is gone. */
void port_unserve_all(struct egress_port *first);
void port_close_all(struct egress_port *first, struct loop *loop);

struct egress_port *port_find(struct egress_port *first, uint64_t slot);
void port_unlink(struct egress_port **first, struct egress_port *port);
void port_close(struct egress_port *port, struct loop *loop);
/* Hand the socket over to the proxy. Returns 0, or -1 with *err set. */
int port_serve(struct egress_port *port, struct egress_wire *wire, struct koda_error *err);
/* Record a report on one of the port's connections. A refused connection is also a violation.
 */
void port_record(struct egress_port *port, uint64_t id, const struct koda_connection *one);

#endif
