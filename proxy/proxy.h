/*
 * koda-egress-proxy: the one way out of the slots of one policy. One process, one thread, one libev loop; it is confined
 * before it reads the first byte of a client, and cheap to lose: the host starts it again and hands it the sockets.
 *
 *	conn      accepts, tells HTTP from SOCKS, reads a head, answers
 *	gate      host and port -> judged, asked for, dialed: a descriptor, or a refusal (reported, with its sentence)
 *	dial      a judged name -> addresses, each judged again -> a connected descriptor; by the user's own proxy if there is one
 *	tunnel    what CONNECT and SOCKS become: the TLS name looked at, then relay
 *	forward   plain HTTP, request by request; also inside a tunnel to a plain HTTP port, and inside TLS that was ended here
 *	relay     two descriptors, splice
 *	intercept certificates of our own
 *	control   the host; ask: questions to the user, by way of it
 *
 * http, body, socks, hello: bytes -> meaning, pure. rewrite: heads, the other way.
 *
 * Callbacks: a function that takes (fn, data) never calls fn before it has returned, and never after its cancel.
 */
#ifndef KODA_PROXY_PROXY_H
#define KODA_PROXY_PROXY_H

#include <ev.h>

#include "shared/rules/egress.h"
#include "shared/rules/upstream.h"

/* A client's head: what browsers send at most, with their largest cookies. Beyond: 431. */
#define PROXY_HEAD_MAX 16384
/* Of one slot; beyond: 503. A browser test has some hundred, a load test of local servers does not come here. */
#ifndef PROXY_CONNS_MAX
#define PROXY_CONNS_MAX 4096
#endif
/* Questions of one slot at a time: more would be a flood of dialogs. Beyond: refused. */
#define PROXY_ASKS_MAX 16

/* The times are given by the build of a program that the tests do not want to wait for (tests/variants). */
#ifndef PROXY_HEAD_SECS
/* From accept, or from the end of the last request, to the end of a head; of a TLS hello after the tunnel is open. 408. */
#define PROXY_HEAD_SECS 10.0
/* Between two requests of a kept-alive connection. */
#define PROXY_KEEP_SECS 300.0
/* Resolve and connect, all addresses together. 504. */
#define PROXY_DIAL_SECS 10.0
/* Nothing in either direction: two hours, as TCP's own keep-alive; an ssh session sleeps over lunch. */
#define PROXY_IDLE_SECS 7200.0
/* One answer of the user. A client gives up before. */
#define PROXY_ASK_SECS 120.0
#endif

/* What is spoken there is known, and looked into (tunnel.h). */
#define PROXY_PORT_TLS   443
#define PROXY_PORT_PLAIN 80

struct control;
struct asks;
struct resolver;
struct relay_pool;
struct intercept;

/* A slot, as far as this process knows it. */
struct listener {
	struct listener *next;
	struct proxy *proxy;
	uint64_t slot;
	int fd;
	ev_io io;
	ev_timer
	    rest; /* accept() failed for want of descriptors or memory: tried again later, never given up */
	unsigned burst; /* so many were accepted at most when it was its turn, which was that */
	unsigned turn;
	struct conn *conns;
	size_t n_conns, n_asks;
};

struct proxy {
	struct ev_loop *loop;
	struct policy policy;
	struct egress_rules *rules;
	enum koda_mode mode;
	bool ask;
	struct upstream upstream;
	struct control *control;
	struct asks *asks;
	struct resolver *resolver;
	struct relay_pool *pool;
	struct intercept *intercept; /* NULL: off */
	struct listener *listeners;
	uint64_t next_id; /* of accounts and questions */
};

#endif
