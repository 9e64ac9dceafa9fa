/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-egress-proxy: the only way out for the slots of one policy. One process, one thread, one
 * libev loop. It is confined before it reads the first byte of a client, and it may die at little
 * cost: the host starts it again and hands it the sockets.
 *
 *	listener  accepts the connections of a slot
 *	conn      tells HTTP from SOCKS, reads a head, answers
 *	gate      judges host and port, asks the user, dials: returns a descriptor, or a refusal
 *	          (reported, with its sentence)
 *	dial      a judged name -> addresses, each judged again -> a connected descriptor;
 *	          through the user's own proxy if there is one (race, upstream_talk)
 *	tunnel    serves CONNECT and SOCKS: checks the TLS name, then starts a relay
 *	forward   plain HTTP, request by request (exchange); also inside a tunnel to a plain HTTP
 *	          port, and inside TLS that this proxy terminates
 *	relay     two descriptors, splice
 *	intercept certificates of our own
 *	control   talks to the host: reports and accounts; orders: carries out the host's orders
 *	questions to the user, through the host
 *
 * http, body, socks, hello: pure parsers of bytes. rewrite: writes heads.
 *
 * Callbacks: a function that takes (fn, data) never calls fn before it has returned, and never
 * after its cancel.
 */
#ifndef KODA_PROXY_PROXY_H
#define KODA_PROXY_PROXY_H

#include <ev.h>

#include "proto/proxy.pb-c.h"
#include "shared/rules/egress.h"
#include "shared/rules/upstream.h"

/* Limit of a client's head: the most that browsers send, with their largest cookies. Above: 431. */
#define PROXY_HEAD_MAX 16384
/* Limit of connections of one slot; above: 503. A browser test has some hundred, and a load test
 * of local servers does not go through the proxy. */
#ifndef PROXY_CONNS_MAX
#define PROXY_CONNS_MAX 4096
#endif
/* Limit of open questions of one slot: more would be a flood of dialogs. Above: refused. */
#define PROXY_ASKS_MAX 16

/* Test variants define these times in their build, so that tests need not wait (tests/variants). */
#ifndef PROXY_HEAD_SECS
/* Until the end of a head, from accept or from the end of the last request (408); until the end
 * of a TLS hello, from the opening of the tunnel. */
#define PROXY_HEAD_SECS 10.0
/* Between two requests of a kept-alive connection. */
#define PROXY_KEEP_SECS 300.0
/* To resolve and connect, all addresses together. 504. */
#define PROXY_DIAL_SECS 10.0
/* No byte in either direction: two hours, like TCP's own keep-alive; an ssh session may be idle
 * over lunch. */
#define PROXY_IDLE_SECS 7200.0
/* For one answer of the user. A client gives up earlier. */
#define PROXY_ASK_SECS 120.0
#endif

/* Ports whose protocol is known and inspected (tunnel.h). */
#define PROXY_PORT_TLS   443
#define PROXY_PORT_PLAIN 80

struct egress_control;
struct open_questions;
struct name_resolver;
struct relay_pool;
struct intercept;

/* A slot, as this process knows it. */
struct listener {
	struct listener *next;
	struct proxy *proxy;
	uint64_t slot;
	Koda__EgressConsentFor consent_for;
	int fd;
	ev_io io;
	/* accept() failed for want of descriptors or memory: retried later, without limit. */
	ev_timer rest;
	unsigned burst; /* limit of accepts in the loop iteration `turn` */
	unsigned turn;
	struct conn *conns;
	size_t n_conns, n_questions;
};

struct proxy {
	struct ev_loop *loop;
	struct policy policy;
	struct egress_rules *rules;
	enum koda_mode mode;
	bool ask;
	struct upstream upstream;
	struct egress_control *control;
	struct open_questions *questions;
	struct name_resolver *resolver;
	struct relay_pool *pool;
	struct intercept *intercept; /* NULL: off */
	struct listener *listeners;
	uint64_t next_id; /* for accounts and questions */
};

#endif
