/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/forward.h"

#include <stdio.h>
#include <string.h>

#include "proxy/serve/exchange.h"
#include "proxy/serve/request_target.h"
#include "proxy/serve/server_link.h"
#include "proxy/serve/upgraded.h"
#include "shared/base/cleanup.h"

/* For the client to read an early answer: closing at once would reset the connection and discard
 * it. */
#define LINGER_SECS 2.0
/* Limit of rounds before other connections get their turn. */
#define ROUNDS_MAX 32

enum forward_phase {
	PHASE_HEAD,     /* no head, or part of one */
	PHASE_GATE,     /* being judged and dialed */
	PHASE_EXCHANGE, /* request out, answer in */
	PHASE_DISCARD,  /* refused; the rest of its body is discarded */
	PHASE_LINGER,   /* after the last answer; input is ignored */
	PHASE_PUMP,     /* upgraded */
	PHASE_RELAY,    /* upgraded, moved by relay */
	PHASE_OVER,
};

enum forward_wait {
	WAIT_NONE,
	WAIT_KEEP,
	WAIT_HEAD,
	WAIT_IDLE,
	WAIT_LINGER,
};

struct forward {
	struct listener *listener;
	struct proxy *proxy;
	enum forward_kind kind;
	Koda__EgressKind account_kind;
	struct side client;
	struct server_link server;
	enum forward_phase phase;
	/* For PHASE_OVER: reset the client, so that it does not take the close for a proper end. */
	bool reset;

	struct target fixed; /* of FORWARD_FIXED */
	struct refusal deny;

	struct exchange x;
	struct target target; /* of the request */
	bool repeated;

	/* Waits until the host has the report of a refusal; the client is not answered before. */
	struct flushed told;
	struct relay *relay;
	enum forward_wait wait;
	double since;
	ev_timer timer;
	forward_fn *fn;
	void *data;
};

static void forward_step(struct forward *f);

/* ---- ends ---- */

static void
forward_over(struct forward *f, bool reset)
{
	f->phase = PHASE_OVER;
	f->reset = reset;
}

/* Release everything except the struct itself. */
static void
forward_release(struct forward *f)
{
	if (f->relay != NULL)
		relay_cancel(f->relay);
	f->relay = NULL;
	/* Before a reset, send what there is of a broken-off answer. */
	if (f->reset && !f->told.waiting)
		side_flush(&f->client, NULL);
	if (f->told.waiting)
		control_forget(f->proxy, &f->told);
	ev_timer_stop(f->proxy->loop, &f->timer);
	side_close(&f->client, f->reset);
	server_link_done(&f->server);
}

/* ---- answers of our own ---- */

/* A tunnel has one connection to a server in its life. */
static bool
lost_only_server(const struct forward *f)
{
	return f->kind == FORWARD_FIXED && f->server.had && !server_link_is_open(&f->server);
}

/* Answer the request with a refusal. understood: the end of the request can be found. */
static void
answer_refusal(struct forward *f, const struct refusal *r, bool understood)
{
	bool keep = understood && !f->x.client_close && exchange_rest_is_small(&f->x) &&
	    !lost_only_server(f);
	char text[REFUSAL_TEXT_MAX];
	size_t n = refusal_text(r, f->proxy->mode, !keep, text);
	const char *end;

	if (f->x.is_head && (end = memmem(text, n, "\r\n\r\n", 4)) != NULL)
		n = (size_t)(end - text) + 4;
	buffer_put(&f->client.out, text, n);
	exchange_drop_head(&f->x, &f->client);
	f->phase = keep ? PHASE_DISCARD : PHASE_LINGER;
}

static void
refuse_request(struct forward *f, const struct target *target, int status, const char *rule,
    const char *why, bool understood)
{
	struct refusal r;

	gate_refuse(f->listener, f->account_kind, target, status, rule, why, &r);
	answer_refusal(f, &r, understood);
	if (!control_flush(f->proxy))
		control_wait(f->proxy, &f->told);
}

/* The server failed. If the client has part of an answer, that cannot be taken back: the client
 * is cut off. */
static void
server_failed(struct forward *f, const char *why)
{
	struct refusal r = { .status = 502, .socks = 1 };

	if (f->x.answered) {
		server_link_fail(&f->server, why);
		forward_over(f, true);
		return;
	}
	snprintf(r.rule, sizeof(r.rule), "server");
	snprintf(r.host, sizeof(r.host), "%s:%u", f->target.host, f->target.port);
	snprintf(r.sentence, sizeof(r.sentence), "%s: %s", r.host, why);
	server_link_fail(&f->server, r.sentence);
	answer_refusal(f, &r, true);
}

/* ---- the request's head ---- */

/* The request is allowed, and there is a connection: send its head. */
static void
send_head(struct forward *f)
{
	const struct rewrite_request r = {
		.host = f->target.host,
		.port = f->target.port,
		.tls = f->client.s.ssl != NULL,
		.via = f->server.via,
	};

	f->phase = PHASE_EXCHANGE;
	if (!exchange_send_head(&f->x, &f->server.side, &r))
		server_failed(f, "no memory for the request");
}

static void
ask_gate(struct forward *f)
{
	f->phase = PHASE_GATE;
	if (!server_link_get(&f->server, &f->target))
		forward_over(f, true);
}

static void
on_server(void *data, enum server_link_end end, const struct refusal *refusal)
{
	struct forward *f = data;

	switch (end) {
	case SERVER_LINK_READY:
		send_head(f);
		break;
	case SERVER_LINK_REFUSED:
		answer_refusal(f, refusal, true);
		break;
	case SERVER_LINK_NO_MEMORY:
		forward_over(f, true);
		break;
	}
	forward_step(f);
}

/* Find the request's target. False: the request was answered. */
static bool
find_target(struct forward *f)
{
	const struct request_place place = {
		.fixed = f->kind == FORWARD_FIXED ? &f->fixed : NULL,
		.credentials = f->proxy->upstream.http.has_credentials,
	};
	struct request_fault fault;

	if (request_target_find(&f->x.head, &place, &f->target, &fault))
		return true;
	/* What follows a CONNECT is not HTTP. */
	if (f->x.head.form == HTTP_FORM_AUTHORITY)
		f->x.client_close = true;
	refuse_request(f, fault.has_target ? &f->target : NULL, fault.status, fault.rule, fault.why,
	    true);
	return false;
}

/* A request has come: send it on, or have its target judged first. */
static void
take_request(struct forward *f)
{
	f->repeated = false;
	if (f->deny.status != 0)
		answer_refusal(f, &f->deny, true);
	else if (find_target(f)) {
		/* The connection was opened to this target by a verdict that also covers what is
		 * sent over it. */
		if (f->kind == FORWARD_FIXED && f->server.had)
			send_head(f);
		else if (f->client.s.ssl != NULL)
			forward_over(f,
			    true); /* intercepted: it must not get a server without TLS */
		else
			ask_gate(f);
	}
}

static bool
step_head(struct forward *f)
{
	const char *why = "";
	enum exchange_result r;

	if (lost_only_server(f)) {
		f->phase = PHASE_LINGER;
		return true;
	}
	/* First send the previous answer: one request at a time, and a client that does not read
	 * gets no more. */
	if (buffer_filled(&f->client.out) > 0)
		return false;
	r = exchange_take_head(&f->x, &f->client, &why);
	if (r == EXCHANGE_TOO_LARGE) {
		refuse_request(f, NULL, 431, "too_large", "the request's head is too large", false);
	} else if (r == EXCHANGE_BAD_REQUEST) {
		refuse_request(f, NULL, 400, "malformed", why, false);
	} else if (r == EXCHANGE_MOVED) {
		take_request(f);
	} else if (f->client.ended) {
		forward_over(f, false);
	} else {
		return false;
	}
	return true;
}

/* ---- the exchange ---- */

/* The body of the request breaks its framing. */
static void
refuse_body(struct forward *f, const char *why)
{
	if (f->phase != PHASE_EXCHANGE) {
		f->phase = PHASE_LINGER;
	} else if (f->x.answered) {
		forward_over(f, true);
	} else {
		/* The server has part of the body, and must not take it for all of it. */
		server_link_drop(&f->server);
		refuse_request(f, &f->target, 400, "malformed", why, false);
	}
}

static bool
step_up(struct forward *f)
{
	bool wanted = f->phase == PHASE_EXCHANGE && !f->server.side.mute;
	const char *why = "";
	enum exchange_result r =
	    exchange_send_body(&f->x, &f->client, wanted ? &f->server.side : NULL, &why);

	if (r == EXCHANGE_CUT)
		forward_over(f, true);
	else if (r == EXCHANGE_BAD_REQUEST)
		refuse_body(f, why);
	return r != EXCHANGE_WAITS;
}

static void
repeat_request(struct forward *f)
{
	server_link_drop(&f->server);
	f->repeated = true;
	ask_gate(f);
}

static bool
step_answer(struct forward *f)
{
	const char *why = "";
	enum exchange_result r = exchange_pass_head(&f->x, &f->client, &f->server.side, &why);

	if (r == EXCHANGE_NO_ANSWER && f->kind == FORWARD_PROXY && f->server.reused &&
	    !f->repeated && exchange_can_repeat(&f->x))
		repeat_request(f);
	else if (r == EXCHANGE_NO_ANSWER || r == EXCHANGE_BAD_ANSWER)
		server_failed(f, why);
	else if (r == EXCHANGE_SWITCHED)
		f->phase = PHASE_PUMP;
	else if (r == EXCHANGE_CUT)
		forward_over(f, true);
	return r != EXCHANGE_WAITS;
}

static bool
step_down(struct forward *f)
{
	const char *why = "";
	enum exchange_result r = exchange_pass_body(&f->x, &f->client, &f->server.side, &why);

	if (r == EXCHANGE_BAD_ANSWER)
		server_failed(f, why);
	return r != EXCHANGE_WAITS;
}

static void
next_request(struct forward *f)
{
	f->wait = WAIT_NONE;
	f->x.answered = f->x.came = false;
	f->server.reused = true;
	f->phase = f->x.client_close ? PHASE_LINGER : PHASE_HEAD;
}

static bool
step_exchange(struct forward *f)
{
	if (step_up(f))
		return true;
	if (!f->x.answered)
		return step_answer(f);
	if (step_down(f))
		return true;
	if (!f->x.down_over || buffer_filled(&f->client.out) > 0)
		return false;
	/* What the server sends before the next request cannot be an answer to it. */
	if (f->x.server_close || f->server.side.ended || f->server.side.mute ||
	    buffer_filled(&f->server.side.in) > 0 || !f->x.up_over ||
	    buffer_filled(&f->server.side.out) > 0)
		server_link_drop(&f->server);
	next_request(f);
	return true;
}

static bool
step_discard(struct forward *f)
{
	if (step_up(f))
		return true;
	if (!f->x.up_over || buffer_filled(&f->client.out) > 0)
		return false;
	next_request(f);
	return true;
}

static bool
step_linger(struct forward *f)
{
	struct side *c = &f->client;

	if (buffer_filled(&c->in) > 0)
		buffer_empty(&c->in);
	if (c->mute || (c->ended && (c->broken || buffer_filled(&c->out) == 0))) {
		forward_over(f, false);
		return true;
	}
	if (buffer_filled(&c->out) > 0 || c->shut)
		return false;
	if (server_link_is_open(&f->server))
		server_link_drop(&f->server);
	stream_shut(&c->s);
	c->shut = true;
	return true;
}

/* ---- upgraded ---- */

static void
on_relay_end(void *data, enum relay_end why)
{
	struct forward *f = data;

	f->relay = NULL;
	forward_over(f, false);
	forward_step(f);
}

static void
start_relay(struct forward *f)
{
	f->relay = upgraded_relay(f->proxy, &f->client, &f->server.side, f->server.account,
	    on_relay_end, f);
	if (f->relay == NULL)
		forward_over(f, true);
	else
		f->phase = PHASE_RELAY;
}

static bool
step_pump(struct forward *f)
{
	switch (upgraded_pump(&f->client, &f->server.side, f->server.account)) {
	case UPGRADED_WAITS:
		return false;
	case UPGRADED_MOVED:
		break;
	case UPGRADED_PLAIN:
		start_relay(f);
		break;
	case UPGRADED_OVER:
		forward_over(f, false);
		break;
	case UPGRADED_BROKEN:
		forward_over(f, true);
		break;
	}
	return true;
}

/* ---- the loop ---- */

static bool
reads_server(const struct forward *f)
{
	return server_link_is_open(&f->server) && !f->server.side.ended && f->phase != PHASE_LINGER;
}

/* Turn received bytes into bytes to send. Returns whether anything happened. */
static bool
step_phase(struct forward *f)
{
	switch (f->phase) {
	case PHASE_EXCHANGE:
		return step_exchange(f);
	case PHASE_PUMP:
		return step_pump(f);
	case PHASE_LINGER:
		return step_linger(f);
	case PHASE_HEAD:
	case PHASE_GATE:
	case PHASE_DISCARD:
		break;
	case PHASE_RELAY:
	case PHASE_OVER:
		return false;
	}
	if (f->phase == PHASE_GATE && f->client.ended && server_link_asks(&f->server)) {
		forward_over(f, false);
		return true;
	}
	/* Between requests a server can only end its connection: drop it if it sends anything. */
	if (server_link_is_open(&f->server) &&
	    (f->server.side.ended || buffer_filled(&f->server.side.in) > 0))
		server_link_drop(&f->server);
	if (f->phase == PHASE_HEAD)
		return step_head(f);
	return f->phase == PHASE_DISCARD && step_discard(f);
}

static bool
step_once(struct forward *f)
{
	bool progress;

	if (f->phase == PHASE_OVER || f->phase == PHASE_RELAY)
		return false;
	progress = side_fill(&f->client, f->x.held);
	if (reads_server(f))
		progress |= side_fill(&f->server.side, false);
	/* A client that is gone cannot be answered. */
	if (f->client.broken || f->client.mute) {
		forward_over(f, true);
		return true;
	}
	/* Before flushing, so that a head and what follows it are sent together: sent
	 * separately, the second would wait for an acknowledgement. */
	if (step_phase(f))
		return true;
	if (!f->told.waiting)
		progress |= side_flush(&f->client,
		    f->server.account != NULL ? &f->server.account->down : NULL);
	progress |=
	    side_flush(&f->server.side, f->server.account != NULL ? &f->server.account->up : NULL);
	return progress;
}

static double
wait_secs(enum forward_wait w)
{
	switch (w) {
	case WAIT_KEEP:
		return PROXY_KEEP_SECS;
	case WAIT_HEAD:
		return PROXY_HEAD_SECS;
	case WAIT_LINGER:
		return LINGER_SECS;
	case WAIT_IDLE:
	case WAIT_NONE:
		break;
	}
	return PROXY_IDLE_SECS;
}

static enum forward_wait
wait_of(const struct forward *f)
{
	switch (f->phase) {
	case PHASE_HEAD:
		return buffer_filled(&f->client.out) > 0 ? WAIT_IDLE
		    : buffer_filled(&f->client.in) > 0   ? WAIT_HEAD
							 : WAIT_KEEP;
	case PHASE_LINGER:
		return f->client.shut ? WAIT_LINGER : WAIT_IDLE;
	case PHASE_EXCHANGE:
	case PHASE_DISCARD:
	case PHASE_PUMP:
		return WAIT_IDLE;
	case PHASE_GATE:
	case PHASE_RELAY:
	case PHASE_OVER:
		break;
	}
	return WAIT_NONE;
}

static void
set_timer(struct forward *f, bool progress)
{
	enum forward_wait w = wait_of(f);

	if (progress && w == WAIT_IDLE)
		f->since = ev_now(f->proxy->loop);
	if (w == f->wait)
		return;
	f->wait = w;
	f->since = ev_now(f->proxy->loop);
	ev_timer_stop(f->proxy->loop, &f->timer);
	if (w == WAIT_NONE)
		return;
	ev_timer_set(&f->timer, wait_secs(w), 0.);
	ev_timer_start(f->proxy->loop, &f->timer);
}

/* Proceed as far as possible. f may be freed. */
static void
forward_step(struct forward *f)
{
	bool reads_client;
	unsigned rounds = 0;

	while (rounds < ROUNDS_MAX && step_once(f))
		rounds++;
	if (f->phase == PHASE_OVER) {
		forward_fn *fn = f->fn;
		void *data = f->data;

		forward_release(f);
		free(f);
		fn(data);
		return;
	}
	if (f->phase == PHASE_RELAY) {
		ev_timer_stop(f->proxy->loop, &f->timer);
		return;
	}
	set_timer(f, rounds > 0);
	side_clear_idle(&f->client);
	side_clear_idle(&f->server.side);
	reads_client = !f->client.ended &&
	    f->client.in.end - (f->x.held ? 0 : f->client.in.start) < BUFFER_SIZE;
	side_watch(&f->client, reads_client,
	    (buffer_filled(&f->client.out) > 0 && !f->told.waiting) ||
		(f->phase == PHASE_PUMP && buffer_filled(&f->server.side.in) > 0));
	side_watch(&f->server.side,
	    reads_server(f) && buffer_filled(&f->server.side.in) < BUFFER_SIZE,
	    buffer_filled(&f->server.side.out) > 0 ||
		(f->phase == PHASE_PUMP && buffer_filled(&f->client.in) > 0));
	/* This has to be last: stopping a watcher also discards events fed to it. */
	if (rounds == ROUNDS_MAX)
		ev_feed_event(f->proxy->loop, &f->client.io, EV_CUSTOM);
}

static void
on_event(struct ev_loop *loop, ev_io *w, int events)
{
	struct forward *f = w->data;
	struct side *s = w == &f->client.io ? &f->client : &f->server.side;

	/* With TLS a read may have waited for room to write, and a write for bytes to read. */
	if ((events & (EV_READ | EV_WRITE)) != 0)
		s->can_read = s->can_write = true;
	forward_step(f);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct forward *f = w->data;
	double left = f->since + wait_secs(f->wait) - ev_now(loop);

	if (left > 0.001) {
		ev_timer_set(&f->timer, left, 0.);
		ev_timer_start(loop, &f->timer);
		return;
	}
	if (f->wait == WAIT_HEAD) {
		f->x.client_close = true;
		refuse_request(f, NULL, 408, "too_slow", "the request's head took too long", false);
	} else if (f->wait == WAIT_IDLE && f->phase == PHASE_EXCHANGE) {
		server_failed(f, "the server sent nothing for hours");
	} else {
		/* A client that has its whole answer is closed without a reset. */
		forward_over(f, f->phase != PHASE_HEAD && f->phase != PHASE_LINGER);
	}
	forward_step(f);
}

static void
on_host_knows(void *data)
{
	forward_step(data);
}

struct forward *
forward_start(struct listener *l, enum forward_kind kind, struct stream *client, const void *bytes,
    size_t n, const struct target *target, struct stream *server, struct account *account,
    forward_fn *fn, void *data)
{
	struct forward *f;

	if (n > BUFFER_SIZE || (f = calloc(1, sizeof(*f))) == NULL)
		return NULL;
	if (n > 0 && buffer_room(&f->client.in, false) == 0) {
		free(f);
		return NULL;
	}
	buffer_put(&f->client.in, bytes, n);
	f->listener = l;
	f->proxy = l->proxy;
	f->kind = kind;
	f->account_kind = client->ssl != NULL ? KODA__EGRESS_KIND__EGRESS_KIND_INTERCEPT
					      : KODA__EGRESS_KIND__EGRESS_KIND_HTTP;
	f->fn = fn;
	f->data = data;
	if (target != NULL)
		f->fixed = *target;
	f->x.one_server = kind == FORWARD_FIXED;
	side_init(&f->client, f->proxy->loop, on_event, f);
	side_open(&f->client, client);
	server_link_init(&f->server, l, f->account_kind, on_event, on_server, f);
	f->server.account = account;
	if (server != NULL && server->fd >= 0)
		server_link_take(&f->server, target, server, account);
	ev_init(&f->timer, on_timer);
	f->timer.data = f;
	f->told.fn = on_host_knows;
	f->told.data = f;
	f->since = ev_now(f->proxy->loop);
	/* Start from the loop: the caller does not have the pointer yet. */
	ev_feed_event(f->proxy->loop, &f->client.io, EV_READ);
	return f;
}

void
forward_deny(struct forward *f, const struct refusal *why)
{
	f->deny = *why;
}

void
forward_cancel(struct forward *f)
{
	if (f == NULL)
		return;
	forward_release(f);
	free(f);
}
