/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request and its answer, between the buffers of two sides: finds the heads, writes them
 * on as rewrite does, and passes the bodies on with the framing that the other side understands.
 * Judges no target, opens and closes no connection, and writes no refusal: what has to happen next
 * is its result, and forward does it.
 */
#ifndef KODA_PROXY_SERVE_EXCHANGE_H
#define KODA_PROXY_SERVE_EXCHANGE_H

#include "proxy/serve/body.h"
#include "proxy/serve/rewrite.h"
#include "proxy/serve/side.h"

struct exchange {
	/* FORWARD_FIXED: the server's connection is the only one, and the client's ends with it. */
	bool one_server;

	/* the request */
	struct http_head head; /* points into client->in while `held` */
	bool held;
	bool is_head;
	struct body up;
	bool up_over, up_chunked, expects, upgrades;
	bool by_proxy; /* was sent to the user's own proxy */

	/* its answer */
	bool came, answered, down_over, down_chunked;
	struct body down;
	bool client_close, server_close;
};

enum exchange_result {
	EXCHANGE_WAITS, /* nothing happened: bytes or room are missing */
	EXCHANGE_MOVED, /* something happened */
	EXCHANGE_CUT,   /* cannot be completed (the client ended, no memory): reset the client */
	EXCHANGE_TOO_LARGE,   /* the request's head */
	EXCHANGE_BAD_REQUEST, /* *ret_why says what is wrong */
	EXCHANGE_BAD_ANSWER,  /* the server failed, as *ret_why says */
	EXCHANGE_NO_ANSWER,   /* the same, and the server ended before the end of its head */
	EXCHANGE_SWITCHED,    /* both sides have changed the protocol */
};

/* Find the head of the next request. EXCHANGE_MOVED: x->head is set, and held. */
enum exchange_result exchange_take_head(struct exchange *x, struct side *client,
    const char **ret_why);
/* Let go of the request's head, if it is held: its bytes are no longer needed. */
void exchange_drop_head(struct exchange *x, struct side *client);
/* Write the request's head to the server. target's head and close are set here. False: no memory. */
bool exchange_send_head(struct exchange *x, struct side *server,
    const struct rewrite_request *target);
/* Move some of the request's body to the server. server NULL: discard it. */
enum exchange_result exchange_send_body(struct exchange *x, struct side *client,
    struct side *server, const char **ret_why);
/* May the request be sent again on another connection? Its answer has not begun, all of it is
 * still here, and its method allows that. */
bool exchange_can_repeat(const struct exchange *x);
/* Is the rest of the request's body short enough to be read and discarded? */
bool exchange_rest_is_small(const struct exchange *x);

/* Pass the head of the answer on, and heads of informational answers before it. x->answered: it
 * is passed on. */
enum exchange_result exchange_pass_head(struct exchange *x, struct side *client,
    struct side *server, const char **ret_why);
/* Move some of the answer's body to the client. x->down_over: that was all. */
enum exchange_result exchange_pass_body(struct exchange *x, struct side *client,
    struct side *server, const char **ret_why);

#endif
