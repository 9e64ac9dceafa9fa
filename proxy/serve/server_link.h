/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forward's connection to a server: opened through the gate when a request needs one, and used
 * again for the next request to the same target, which is judged again. Holds the account of the
 * connection and reports its end. The exchange decides what is sent over it.
 */
#ifndef KODA_PROXY_SERVE_SERVER_LINK_H
#define KODA_PROXY_SERVE_SERVER_LINK_H

#include "proxy/gate.h"
#include "proxy/serve/side.h"

enum server_link_end {
	SERVER_LINK_READY,
	SERVER_LINK_REFUSED,
	SERVER_LINK_NO_MEMORY,
};
/* refusal: of SERVER_LINK_REFUSED, and valid during the call. */
typedef void server_link_fn(void *data, enum server_link_end end, const struct refusal *refusal);

struct server_link {
	struct side side; /* side.s.fd -1: there is no connection */
	const struct upstream_proxy *via;
	struct account *account;
	bool had;    /* there has been a connection */
	bool reused; /* it has served an earlier request */
	struct gate *gate;

	struct listener *listener;
	Koda__EgressKind kind; /* in reports */
	struct target wanted, at;
	bool judged_only;
	server_link_fn *fn;
	void *data;
};

/* Initialise a link without a connection. event: called with events of its side. */
void server_link_init(struct server_link *s, struct listener *l, Koda__EgressKind kind,
    side_event_fn *event, server_link_fn *fn, void *data);
/* Take a connection to that target, with its account. */
void server_link_take(struct server_link *s, const struct target *target,
    const struct stream *stream, struct account *account);
bool server_link_is_open(const struct server_link *s);

/* Have the target judged, and a connection to it if there is none; fn gets the result. False: no
 * memory. */
bool server_link_get(struct server_link *s, const struct target *target);
/* Does it wait for the user's answer? Only while it waits for the gate. */
bool server_link_asks(const struct server_link *s);

/* Close the connection, if there is one. */
void server_link_drop(struct server_link *s);
/* The same, and report that it failed. */
void server_link_fail(struct server_link *s, const char *why);
/* End everything, without calling fn. */
void server_link_done(struct server_link *s);

#endif
