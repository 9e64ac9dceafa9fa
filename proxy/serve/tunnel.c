/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/tunnel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/accept/hello.h"
#include "proxy/serve/forward.h"
#include "proxy/serve/intercept.h"
#include "proxy/serve/relay.h"
#include "shared/base/cleanup.h"

#define TLS_HANDSHAKE 0x16
#define TLS_HEADER    5
#define FIRST_READ    4096 /* normally a whole hello */
#define FIRST_ANSWER  16384
#define DRAIN_MAX     16

#define TLS_CHANGE_CIPHER 0x14
#define TLS_DATA          0x17

/* A server may want another hello (HelloRetryRequest), and some servers serve by the name in the
 * second one. So after a first hello with the right name the tunnel waits for the server's
 * answer before it starts the relay. */
enum looking {
	LOOK_FIRST,
	LOOK_ANSWER,
	LOOK_SECOND,
};

/* A tunnel before the client's protocol is known. After that a relay, a forward or an interception
 * has the descriptors. */
struct tunnel {
	struct listener *l;
	struct target target;
	struct egress_verdict verdict;
	struct account *account;
	tunnel_fn *fn;
	void *data;
	int client, server;
	ev_io client_io, server_io;
	ev_timer timer;
	ev_prepare over;   /* never started: fed */
	unsigned char *up; /* read from the client, not passed on yet */
	size_t n_up, up_size;
	size_t need; /* how many bytes of the client are needed before look() can learn more */
	enum looking looking;
	size_t unsent; /* bytes of the hello, with which `up` begins, that are not sent yet */
	unsigned char down[HELLO_ANSWER_LEN]; /* read from the server: too little to judge */
	size_t n_down;
	struct relay *relay;
	struct forward *forward;
	struct interception *interception;
};

static void
tunnel_free(struct tunnel *t)
{
	struct ev_loop *loop = t->l->proxy->loop;

	ev_io_stop(loop, &t->client_io);
	ev_io_stop(loop, &t->server_io);
	ev_timer_stop(loop, &t->timer);
	ev_clear_pending(loop, &t->over);
	close_at(&t->client);
	close_at(&t->server);
	free(t->up);
	free(t);
}

static void
on_over(struct ev_loop *loop, ev_prepare *w, int events)
{
	struct tunnel *t = w->data;
	tunnel_fn *fn = t->fn;
	void *data = t->data;

	tunnel_free(t);
	fn(data);
}

/* End the tunnel and close both sides. fn is called from the loop, since the caller may be
 * tunnel_start(). */
static void
finish(struct tunnel *t, Koda__EgressOutcome outcome, const char *rule, const char *detail)
{
	struct ev_loop *loop = t->l->proxy->loop;

	account_end(t->account, outcome, rule, detail);
	t->account = NULL;
	ev_io_stop(loop, &t->client_io);
	ev_io_stop(loop, &t->server_io);
	ev_timer_stop(loop, &t->timer);
	close_at(&t->server);
	t->server = -1;
	close_at(&t->client);
	t->client = -1;
	ev_feed_event(loop, &t->over, EV_CUSTOM);
}

static void
finish_resources(struct tunnel *t)
{
	finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, "resources",
	    "the proxy is out of memory");
}

/* ---- handing on ---- */

static void
on_relayed(void *data, enum relay_end why)
{
	struct tunnel *t = data;

	t->relay = NULL;
	/* The detail says what happened; the outcome stays ALLOWED, since it is normal that one
	 * side leaves in the middle. */
	finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL,
	    why == RELAY_IDLE         ? "nothing was sent for too long"
		: why == RELAY_BROKEN ? "one side broke the connection off"
				      : NULL);
}

static void
on_forwarded(void *data)
{
	struct tunnel *t = data;

	t->forward = NULL;
	finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL, NULL);
}

static void
on_intercepted(void *data)
{
	struct tunnel *t = data;

	t->interception = NULL;
	finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL, NULL);
}

static void
stop_looking(struct tunnel *t)
{
	struct ev_loop *loop = t->l->proxy->loop;

	ev_io_stop(loop, &t->client_io);
	ev_io_stop(loop, &t->server_io);
	ev_timer_stop(loop, &t->timer);
}

/* The descriptors and the bytes were taken: forget them. */
static void
handed_on(struct tunnel *t)
{
	t->client = t->server = -1;
	free(take_ptr(&t->up));
	t->n_up = 0;
}

static void
start_relay_with(struct tunnel *t, const void *down, size_t n_down)
{
	stop_looking(t);
	t->relay = relay_start(t->l->proxy, t->client, t->server, t->up, t->n_up, down, n_down,
	    t->account, on_relayed, t);
	if (t->relay == NULL)
		finish_resources(t);
	else
		handed_on(t);
}

static void
start_relay(struct tunnel *t)
{
	start_relay_with(t, NULL, 0);
}

static void
start_forward(struct tunnel *t)
{
	struct stream client, server;

	stop_looking(t);
	stream_init(&client, t->client, NULL);
	stream_init(&server, t->server, NULL);
	t->forward = forward_start(t->l, FORWARD_FIXED, &client, t->up, t->n_up, &t->target,
	    &server, t->account, on_forwarded, t);
	if (t->forward == NULL) {
		finish_resources(t);
		return;
	}
	t->account = NULL;
	handed_on(t);
}

static void
start_interception(struct tunnel *t)
{
	stop_looking(t);
	t->interception = intercept_start(t->l, &t->target, t->client, t->up, t->n_up, t->server,
	    t->account, on_intercepted, t);
	if (t->interception == NULL) {
		finish_resources(t);
		return;
	}
	t->account = NULL;
	handed_on(t);
}

/* Is the protocol of the port known? Then the client speaks first, and soon. */
static bool
is_known_port(const struct tunnel *t)
{
	return t->target.port == PROXY_PORT_TLS || t->target.port == PROXY_PORT_PLAIN;
}

/* ---- identifying the protocol ---- */

/* Refuse with a TLS alert. Unread bytes of the client must not discard the alert. */
static void
refuse_name(struct tunnel *t, const char *why)
{
	char sentence[EGRESS_SENTENCE_MAX];

	snprintf(sentence, sizeof(sentence),
	    "%s:%u is refused: %s (rule tls_name, mode %s); connect with the name of this host, "
	    "and with TLS on a port for TLS",
	    t->target.host, t->target.port, why, policy_mode_name(t->l->proxy->mode));
	account_end(t->account, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED, "tls_name", sentence);
	t->account = NULL;
	if (send(t->client, hello_alert, HELLO_ALERT_LEN, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		shutdown(t->client, SHUT_WR);
	/* Closing with unread bytes would send a reset, which the client would see first. */
	for (int i = 0; i < DRAIN_MAX && recv(t->client, t->up, t->up_size, MSG_DONTWAIT) > 0; i++)
		;
	finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_DENIED, NULL, NULL);
}

/* Returns NULL, or why that hello is not for this target. */
static const char *
judge_hello(const struct tunnel *t, const struct tls_hello *hello)
{
	/* A denied name is denied, whatever else the policy says. */
	if (hello->has_name &&
	    egress_judge(t->l->proxy->rules, hello->name, DOMAIN_NAME, t->target.port).decision ==
		EGRESS_DENY)
		return "a rule of the policy denies the TLS server name";
	if (t->verdict.any_sni)
		return NULL;
	if (hello->encrypted)
		return "the TLS server name is encrypted";
	/* RFC 6066: a server name is never an address. */
	if (!hello->has_name)
		return t->target.kind == DOMAIN_NAME ? "the TLS hello names no server" : NULL;
	if (strcmp(hello->name, t->target.host) == 0)
		return NULL;
	return strcmp(t->verdict.rule, "any_domain") == 0 ? NULL
							  : "the TLS server name is another host";
}

/* Return how many bytes make the current record complete: a hello in tiny pieces is not parsed
 * for each of them. */
static size_t
next_record(const unsigned char *p, size_t n)
{
	size_t at = 0;

	while (n - at >= TLS_HEADER) {
		at += TLS_HEADER + ((size_t)p[at + 3] << 8 | p[at + 4]);
		if (at > n)
			return at < HELLO_MAX ? at : HELLO_MAX;
	}
	return at + TLS_HEADER < HELLO_MAX ? at + TLS_HEADER : HELLO_MAX;
}

static void
set_time(struct tunnel *t, double secs)
{
	ev_timer_stop(t->l->proxy->loop, &t->timer);
	ev_timer_set(&t->timer, secs, 0);
	ev_timer_start(t->l->proxy->loop, &t->timer);
}

static void
watch_server(struct tunnel *t, int events)
{
	struct ev_loop *loop = t->l->proxy->loop;

	ev_io_stop(loop, &t->server_io);
	ev_io_set(&t->server_io, t->server, events);
	ev_io_start(loop, &t->server_io);
}

/* Send the hello, and nothing after it. */
static void
send_hello(struct tunnel *t)
{
	ssize_t n = send(t->server, t->up, t->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);

	/* The next read reports the error. */
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = (ssize_t)t->unsent;
	if (n > 0) {
		t->account->up += (uint64_t)n;
		t->unsent -= (size_t)n;
		t->n_up -= (size_t)n;
		memmove(t->up, t->up + n, t->n_up);
	}
	if (t->unsent > 0) {
		ev_io_stop(t->l->proxy->loop, &t->client_io);
		watch_server(t, EV_WRITE);
		return;
	}
	ev_io_start(t->l->proxy->loop, &t->client_io);
	watch_server(t, EV_READ);
}

static void
await_answer(struct tunnel *t, size_t hello_len)
{
	t->looking = LOOK_ANSWER;
	t->unsent = hello_len;
	set_time(t, PROXY_IDLE_SECS);
	send_hello(t);
}

/* Find where the second hello begins: after early data, which the server rejects, and a dummy
 * ChangeCipherSpec record. */
static size_t
second_hello(const struct tunnel *t)
{
	size_t at = 0;

	while (
	    t->n_up >= at + TLS_HEADER && (t->up[at] == TLS_CHANGE_CIPHER || t->up[at] == TLS_DATA))
		at += TLS_HEADER + ((size_t)t->up[at + 3] << 8 | t->up[at + 4]);
	return at;
}

static void
look_at_hello(struct tunnel *t)
{
	size_t at = t->looking == LOOK_SECOND ? second_hello(t) : 0;
	enum hello_result r = HELLO_INCOMPLETE;
	struct tls_hello hello;
	const char *why = NULL;

	/* The header of a record that is to be skipped may be incomplete. */
	if (t->n_up > at &&
	    (t->looking == LOOK_FIRST || (t->up[at] != TLS_CHANGE_CIPHER && t->up[at] != TLS_DATA)))
		r = hello_parse(t->up + at, t->n_up - at, &hello, &why);
	switch (r) {
	case HELLO_INCOMPLETE:
		t->need = at < t->n_up ? at + next_record(t->up + at, t->n_up - at) : at + 1;
		if (t->need <= t->n_up)
			t->need = t->n_up + 1;
		if (t->n_up >= HELLO_MAX)
			refuse_name(t, "the TLS hello is too long");
		return;
	case HELLO_NOT_TLS:
		refuse_name(t, "the client does not speak TLS");
		return;
	case HELLO_BAD:
		refuse_name(t, why == NULL ? "the TLS hello is malformed" : why);
		return;
	case HELLO_OK:
		break;
	}
	why = judge_hello(t, &hello);
	if (why != NULL)
		refuse_name(t, why);
	else if (t->l->proxy->intercept != NULL)
		start_interception(t);
	else if (t->verdict.any_sni || t->looking == LOOK_SECOND)
		start_relay(t);
	else
		await_answer(t, hello.len);
}

static void
look(struct tunnel *t)
{
	if (t->looking == LOOK_SECOND || t->up[0] == TLS_HANDSHAKE ||
	    t->target.port == PROXY_PORT_TLS)
		look_at_hello(t);
	else if (t->target.port == PROXY_PORT_PLAIN)
		start_forward(t);
	else
		start_relay(t);
}

/* ---- the client's first bytes ---- */

static bool
make_room(struct tunnel *t)
{
	size_t size = t->up_size == 0 ? FIRST_READ : t->up_size;
	unsigned char *up;

	if (t->n_up < t->up_size)
		return true;
	while (size <= t->n_up)
		size *= 2;
	up = realloc(t->up, size);
	if (up == NULL)
		return false;
	t->up = up;
	t->up_size = size;
	return true;
}

static void
on_client(struct ev_loop *loop, ev_io *w, int events)
{
	static unsigned char first[FIRST_READ]; /* an idle tunnel has no buffer */
	struct tunnel *t = w->data;
	bool fresh = t->up == NULL;
	ssize_t n;

	if (!fresh && !make_room(t)) {
		finish_resources(t);
		return;
	}
	if (fresh)
		n = recv(t->client, first, sizeof(first), 0);
	else
		n = recv(t->client, t->up + t->n_up, t->up_size - t->n_up, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0 && t->looking == LOOK_ANSWER) {
		if (t->n_up == 0) { /* no second hello will come */
			start_relay_with(t, t->down, t->n_down);
			return;
		}
		ev_io_stop(loop, w);
		set_time(t, PROXY_HEAD_SECS);
		return;
	}
	/* The client ended without sending anything: the server may still send something, unless
	 * it waits for a hello. An incomplete hello is not enough. */
	if (n == 0 && t->n_up == 0 && !is_known_port(t)) {
		start_relay(t);
		return;
	}
	if (n <= 0) {
		finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL, NULL);
		return;
	}
	if (fresh) {
		t->up_size = (size_t)n < 512 ? 512 : (size_t)n;
		t->up = malloc(t->up_size);
		if (t->up == NULL) {
			finish_resources(t);
			return;
		}
		memcpy(t->up, first, (size_t)n);
	}
	t->n_up += (size_t)n;
	if (fresh && !is_known_port(t)) { /* from now on the rest has to arrive soon */
		ev_io_stop(loop, &t->server_io);
		set_time(t, PROXY_HEAD_SECS);
	}
	if (t->looking == LOOK_ANSWER) {
		if (t->n_up >= HELLO_MAX) /* the rest waits in the socket */
			ev_io_stop(loop, w);
	} else if (t->n_up >= t->need) {
		look(t);
	}
}

/* Read the server's first bytes after the hello was sent to it. */
static void
hear_answer(struct tunnel *t)
{
	static unsigned char bytes[FIRST_ANSWER];
	ssize_t r;
	size_t n;

	memcpy(bytes, t->down, t->n_down);
	r = recv(t->server, bytes + t->n_down, sizeof(bytes) - t->n_down, 0);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r < 0) {
		finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL,
		    "one side broke the connection off");
		return;
	}
	n = t->n_down + (size_t)r;
	switch (r == 0 ? HELLO_ANSWER_OTHER : hello_answer_parse(bytes, n)) {
	case HELLO_ANSWER_INCOMPLETE:
		memcpy(t->down, bytes, n);
		t->n_down = n;
		return;
	case HELLO_ANSWER_OTHER:
		start_relay_with(t, bytes, n);
		return;
	case HELLO_ANSWER_RETRY:
		break;
	}
	/* Nothing was sent to the client before, so there is room. */
	if (send(t->client, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n) {
		finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL,
		    "one side broke the connection off");
		return;
	}
	t->account->down += n;
	t->looking = LOOK_SECOND;
	t->need = 0;
	set_time(t, PROXY_HEAD_SECS);
	ev_io_stop(t->l->proxy->loop, &t->server_io);
	ev_io_start(t->l->proxy->loop, &t->client_io);
	if (t->n_up > 0)
		look(t);
}

static void
on_server(struct ev_loop *loop, ev_io *w, int events)
{
	struct tunnel *t = w->data;

	if (t->looking == LOOK_ANSWER && t->unsent > 0)
		send_hello(t);
	else if (t->looking == LOOK_ANSWER)
		hear_answer(t);
	else /* not TLS: the server speaks first, and the client may wait for it */
		start_relay(t);
}

static void
on_time(struct ev_loop *loop, ev_timer *w, int events)
{
	struct tunnel *t = w->data;

	if ((t->n_up == 0 && !is_known_port(t)) || t->looking == LOOK_ANSWER)
		finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL,
		    "nothing was sent for too long");
	else
		finish(t, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_INVALID, "time",
		    "the client did not send a request in time");
}

/* ---- start and cancel ---- */

struct tunnel *
tunnel_start(struct listener *l, Koda__EgressKind kind, const struct target *target,
    const struct egress_verdict *verdict, int client, const void *bytes, size_t n, int server,
    struct account *account, tunnel_fn *fn, void *data)
{
	struct ev_loop *loop = l->proxy->loop;
	struct tunnel *t = calloc(1, sizeof(*t));

	if (t != NULL && n > 0) {
		t->up_size = n;
		t->up = malloc(n);
	}
	if (t == NULL || (n > 0 && t->up == NULL)) {
		free(t);
		return NULL;
	}
	t->l = l;
	t->target = *target;
	t->verdict = *verdict;
	t->account = account;
	t->fn = fn;
	t->data = data;
	t->client = client;
	t->server = server;
	t->n_up = n;
	ev_io_init(&t->client_io, on_client, client, EV_READ);
	ev_io_init(&t->server_io, on_server, server, EV_READ);
	ev_timer_init(&t->timer, on_time, 0, 0);
	ev_prepare_init(&t->over, on_over);
	t->client_io.data = t->server_io.data = t->timer.data = t->over.data = t;
	ev_io_start(loop, &t->client_io);
	if (!is_known_port(t) && n == 0)
		ev_io_start(loop, &t->server_io);
	set_time(t, is_known_port(t) || n > 0 ? PROXY_HEAD_SECS : PROXY_IDLE_SECS);
	if (n > 0) {
		memcpy(t->up, bytes, n);
		look(t);
	}
	return t;
}

void
tunnel_cancel(struct tunnel *t)
{
	if (t->relay != NULL)
		relay_cancel(t->relay);
	if (t->forward != NULL)
		forward_cancel(t->forward);
	if (t->interception != NULL)
		intercept_cancel(t->interception);
	account_end(t->account, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_ALLOWED, NULL, "cut off");
	tunnel_free(t);
}
