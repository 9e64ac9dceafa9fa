/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/accept/conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/accept/client_answer.h"
#include "proxy/accept/http.h"
#include "proxy/accept/socks.h"
#include "proxy/gate.h"
#include "proxy/serve/forward.h"
#include "proxy/serve/tunnel.h"
#include "shared/base/cleanup.h"

/* How long a refused client may take to read why: closing with unread bytes would discard the
 * answer. */
#define LINGER_SECS 2.0
#define LINGER_MAX  (1u << 20)
#define HEAD_START  2048
/* So many connections above PROXY_CONNS_MAX are told why they are refused; further ones are
 * closed at once, since no client would read it. */
#define REFUSED_MAX 64
/* The refusal is in the client's protocol, which its first byte shows: this long is enough for a
 * byte that is on its way. */
#define REFUSED_SECS 0.1

enum conn_state {
	CONN_FIRST, /* no byte yet */
	CONN_HTTP,
	CONN_SOCKS_GREETING,
	CONN_SOCKS_REQUEST,
	CONN_GATE,
	CONN_SERVED, /* a tunnel or a forward has the descriptor */
	CONN_LINGER,
};

struct conn {
	struct conn *prev, *next;
	struct listener *l;
	enum conn_state state;
	bool surplus; /* above PROXY_CONNS_MAX */
	int fd;
	ev_io io;
	ev_timer timer;
	unsigned char *buf; /* an incomplete head, or what came after the head */
	size_t n, size;
	size_t lingered;
	Koda__EgressKind kind;
	struct target target;
	struct gate *gate;
	struct tunnel *tunnel;
	struct forward *forward;
};

static struct ev_loop *
loop_of(const struct conn *c)
{
	return c->l->proxy->loop;
}

void
conn_free(struct conn *c)
{
	struct listener *l = c->l;

	if (c->gate != NULL)
		gate_cancel(c->gate);
	if (c->tunnel != NULL)
		tunnel_cancel(c->tunnel);
	if (c->forward != NULL)
		forward_cancel(c->forward);
	ev_io_stop(loop_of(c), &c->io);
	ev_timer_stop(loop_of(c), &c->timer);
	if (c->fd >= 0)
		close(c->fd);
	if (c->next != NULL)
		c->next->prev = c->prev;
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		l->conns = c->next;
	l->n_conns--;
	free(c->buf);
	free(c);
}

static void
set_time(struct conn *c, double secs)
{
	ev_timer_stop(loop_of(c), &c->timer);
	ev_timer_set(&c->timer, secs, 0);
	ev_timer_start(loop_of(c), &c->timer);
}

/* ---- answers ---- */

/* Send the last answer; then read and discard what the client still sends, until it ends or
 * sends too much. c may be freed. */
static void
say_last(struct conn *c, const struct client_answer *a)
{
	if (a->n == 0 || send(c->fd, a->bytes, a->n, MSG_NOSIGNAL) != (ssize_t)a->n ||
	    shutdown(c->fd, SHUT_WR) < 0) {
		conn_free(c);
		return;
	}
	c->state = CONN_LINGER;
	free(take_ptr(&c->buf));
	c->n = c->size = 0;
	set_time(c, LINGER_SECS);
	ev_io_start(loop_of(c), &c->io);
}

static void
say_refusal(struct conn *c, const struct refusal *r)
{
	struct client_answer a;

	client_answer_refusal(c->kind, r, c->l->proxy->mode, &a);
	say_last(c, &a);
}

static void
conn_refuse(struct conn *c, int status, const char *rule, const char *why)
{
	struct refusal r;

	gate_refuse(c->l, c->kind, NULL, status, rule, why, &r);
	say_refusal(c, &r);
}

/* why: a phrase of a parser, without its subject. */
static void
refuse_malformed(struct conn *c, const char *why)
{
	char sentence[EGRESS_SENTENCE_MAX];

	snprintf(sentence, sizeof(sentence), "the request to the proxy is malformed: %s", why);
	conn_refuse(c, 400, "malformed", sentence);
}

static void
refuse_socks(struct conn *c, unsigned char code, const char *why)
{
	char sentence[EGRESS_SENTENCE_MAX];
	struct refusal r;

	snprintf(sentence, sizeof(sentence), "the SOCKS request is refused: %s", why);
	gate_refuse(c->l, c->kind, NULL, 400, "malformed", sentence, &r);
	r.socks = code;
	say_refusal(c, &r);
}

/* ---- served ---- */

static void
on_tunnel_over(void *data)
{
	struct conn *c = data;

	c->tunnel = NULL;
	conn_free(c);
}

static void
on_forward_over(void *data)
{
	struct conn *c = data;

	c->forward = NULL;
	conn_free(c);
}

/* A tunnel or a forward has the descriptor now, and its own timers. */
static void
conn_served(struct conn *c)
{
	c->fd = -1;
	c->state = CONN_SERVED;
	ev_io_stop(loop_of(c), &c->io);
	ev_timer_stop(loop_of(c), &c->timer);
	free(take_ptr(&c->buf));
	c->n = c->size = 0;
}

static void
start_tunnel(struct conn *c, const struct gate_answer *answer)
{
	struct client_answer opened;

	client_answer_opened(c->kind, &opened);
	/* From here on only the tunnel may read the descriptor, or wait for it. */
	ev_io_stop(loop_of(c), &c->io);
	if (send(c->fd, opened.bytes, opened.n, MSG_NOSIGNAL) == (ssize_t)opened.n)
		c->tunnel = tunnel_start(c->l, c->kind, &c->target, &answer->verdict, c->fd, c->buf,
		    c->n, answer->fd, answer->account, on_tunnel_over, c);
	if (c->tunnel != NULL) {
		conn_served(c);
		return;
	}
	close(answer->fd);
	account_end(answer->account, KODA__EGRESS_OUTCOME__EGRESS_OUTCOME_FAILED, "client",
	    "the client went away");
	conn_free(c);
}

static void
on_gate(void *data, const struct gate_answer *answer)
{
	struct conn *c = data;

	c->gate = NULL;
	if (answer->refusal.status != 0)
		say_refusal(c, &answer->refusal);
	else
		start_tunnel(c, answer);
}

/* Keep what came after the head: a client need not wait for the answer. */
static bool
keep_rest(struct conn *c, const unsigned char *p, size_t n)
{
	size_t size = c->size == 0 ? HEAD_START : c->size;

	while (size < n)
		size *= 2;
	if (n > 0 && size > c->size) {
		unsigned char *buf = malloc(size);

		if (buf == NULL)
			return false;
		memcpy(buf, p, n);
		free(c->buf);
		c->buf = buf;
		c->size = size;
	} else if (n > 0) {
		memmove(c->buf, p, n);
	}
	c->n = n;
	return true;
}

/* Double the buffer; a head larger than PROXY_HEAD_MAX was refused before. */
static bool
grow_buffer(struct conn *c)
{
	unsigned char *buf = realloc(c->buf, 2 * c->size);

	if (buf == NULL)
		return false;
	c->buf = buf;
	c->size *= 2;
	return true;
}

static void
start_gate(struct conn *c, const unsigned char *rest, size_t n)
{
	/* Asking and dialing have their own time limits. */
	ev_timer_stop(loop_of(c), &c->timer);
	c->state = CONN_GATE;
	if (!keep_rest(c, rest, n)) {
		conn_free(c);
		return;
	}
	c->gate = gate_start(c->l, c->kind, &c->target, 0, on_gate, c);
	if (c->gate == NULL)
		conn_refuse(c, 503, "resources", "the proxy is out of memory");
	else
		ev_io_start(loop_of(c), &c->io); /* to notice when the client leaves */
}

static void
start_forward(struct conn *c, const unsigned char *p, size_t n)
{
	struct stream client;

	stream_init(&client, c->fd, NULL);
	c->forward =
	    forward_start(c->l, FORWARD_PROXY, &client, p, n, NULL, NULL, NULL, on_forward_over, c);
	if (c->forward == NULL)
		conn_refuse(c, 503, "resources", "the proxy is out of memory");
	else
		conn_served(c);
}

/* ---- heads ---- */

static void
wait_for_more(struct conn *c, const unsigned char *p, size_t n)
{
	if (p != c->buf && !keep_rest(c, p, n)) {
		conn_free(c);
		return;
	}
	c->n = n;
	ev_io_start(loop_of(c), &c->io);
}

/* came: how many of the bytes are new. A head ends with a line feed: without a new one there is
 * nothing to parse again. */
static void
take_http(struct conn *c, const unsigned char *p, size_t n, size_t came)
{
	static struct http_head head; /* some kilobytes; not kept after this function */
	const char *why = NULL;
	enum http_result r = HTTP_INCOMPLETE;

	if (memchr(p + n - came, '\n', came) != NULL)
		r = http_request_parse(p, n, &head, &why);
	c->kind = KODA__EGRESS_KIND__EGRESS_KIND_HTTP;
	if (r == HTTP_INCOMPLETE) {
		if (n >= PROXY_HEAD_MAX)
			conn_refuse(c, 431, "too_large", "the head of the request is too large");
		else
			wait_for_more(c, p, n);
		return;
	}
	if (r == HTTP_BAD) {
		refuse_malformed(c, why);
		return;
	}
	switch (head.form) {
	case HTTP_FORM_AUTHORITY:
		c->kind = KODA__EGRESS_KIND__EGRESS_KIND_CONNECT;
		memcpy(c->target.host, head.host, sizeof(head.host));
		c->target.kind = head.host_kind;
		c->target.port = head.port;
		start_gate(c, p + head.len, n - head.len);
		return;
	case HTTP_FORM_ABSOLUTE:
		start_forward(c, p, n);
		return;
	case HTTP_FORM_ORIGIN:
	case HTTP_FORM_ASTERISK:
		conn_refuse(c, 400, "malformed", "this is a proxy: a request must name its host");
		return;
	}
}

static void
take_socks_request(struct conn *c, const unsigned char *p, size_t n)
{
	struct socks_request req;

	switch (socks_request_parse(p, n, &req)) {
	case SOCKS_INCOMPLETE:
		wait_for_more(c, p, n);
		return;
	case SOCKS_OK:
		memcpy(c->target.host, req.host, sizeof(req.host));
		c->target.kind = req.kind;
		c->target.port = req.port;
		start_gate(c, p + req.len, n - req.len);
		return;
	case SOCKS_REFUSE:
		refuse_socks(c, (unsigned char)req.reply, req.why);
		return;
	case SOCKS_BAD:
	case SOCKS_NO_METHOD:
		refuse_socks(c, SOCKS_FAILURE, "it is not valid SOCKS");
		return;
	}
}

static void
take_socks_greeting(struct conn *c, const unsigned char *p, size_t n)
{
	struct client_answer a;
	struct refusal r;
	size_t len = 0;

	switch (socks_greeting_parse(p, n, &len)) {
	case SOCKS_INCOMPLETE:
		wait_for_more(c, p, n);
		return;
	case SOCKS_OK:
		break;
	case SOCKS_NO_METHOD:
		gate_refuse(c->l, c->kind, NULL, 400, "malformed",
		    "this proxy takes SOCKS without authentication only", &r);
		client_answer_socks_no_method(&a);
		say_last(c, &a);
		return;
	case SOCKS_BAD:
	case SOCKS_REFUSE:
		gate_refuse(c->l, c->kind, NULL, 400, "malformed", "that is not SOCKS5", &r);
		conn_free(c);
		return;
	}
	client_answer_socks_accepted(&a);
	if (send(c->fd, a.bytes, a.n, MSG_NOSIGNAL) != (ssize_t)a.n) {
		conn_free(c);
		return;
	}
	c->state = CONN_SOCKS_REQUEST;
	/* The rest, if there is any, moves to the front: a request is parsed from its first
	 * byte. */
	if (n > len)
		take_socks_request(c, p + len, n - len);
	else
		wait_for_more(c, p + len, 0);
}

/* Refuse a protocol that is not supported, in that protocol's terms where that takes one line. */
static void
take_other(struct conn *c, unsigned char first)
{
	struct client_answer a;
	struct refusal r;

	if (first == SOCKS4_VERSION) {
		c->kind = KODA__EGRESS_KIND__EGRESS_KIND_SOCKS;
		gate_refuse(c->l, c->kind, NULL, 400, "malformed",
		    "this proxy does not speak SOCKS4", &r);
		client_answer_socks4(&a);
		say_last(c, &a);
		return;
	}
	gate_refuse(c->l, KODA__EGRESS_KIND__EGRESS_KIND_CONNECT, NULL, 400, "malformed",
	    "this proxy does not speak TLS itself", &r);
	conn_free(c);
}

/* Refuse a connection above the limit. n 0: it has sent nothing. */
static void
refuse_surplus(struct conn *c, const unsigned char *p, size_t n)
{
	struct client_answer a;
	struct refusal r;

	c->kind = client_answer_kind(n > 0 ? p[0] : -1);
	gate_refuse(c->l, c->kind, NULL, 503, "connections", "too many connections at a time", &r);
	client_answer_unheard(p, n, &r, c->l->proxy->mode, &a);
	say_last(c, &a);
}

static void
take_bytes(struct conn *c, const unsigned char *p, size_t n, size_t came)
{
	if (c->state == CONN_FIRST) {
		if (p[0] == SOCKS4_VERSION || p[0] == TLS_HANDSHAKE) {
			take_other(c, p[0]);
			return;
		}
		c->state = p[0] == SOCKS_VERSION ? CONN_SOCKS_GREETING : CONN_HTTP;
		c->kind = p[0] == SOCKS_VERSION ? KODA__EGRESS_KIND__EGRESS_KIND_SOCKS
						: KODA__EGRESS_KIND__EGRESS_KIND_HTTP;
	}
	switch (c->state) {
	case CONN_HTTP:
		take_http(c, p, n, came);
		return;
	case CONN_SOCKS_GREETING:
		take_socks_greeting(c, p, n);
		return;
	case CONN_SOCKS_REQUEST:
		take_socks_request(c, p, n);
		return;
	case CONN_FIRST:
	case CONN_GATE:
	case CONN_SERVED:
	case CONN_LINGER:
		return;
	}
}

/* ---- events ---- */

/* The first bytes of most connections are the whole head, and are parsed where they were read. */
static void
read_head(struct conn *c)
{
	static unsigned char first[PROXY_HEAD_MAX];
	unsigned char *p = first;
	size_t had = c->n;
	ssize_t n;

	if (had > 0) {
		if (had == c->size && !grow_buffer(c)) {
			conn_free(c);
			return;
		}
		p = c->buf;
	}
	n = recv(c->fd, p + had, (had > 0 ? c->size : sizeof(first)) - had, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		ev_io_start(loop_of(c), &c->io);
		return;
	}
	if (c->surplus)
		refuse_surplus(c, p, n > 0 ? (size_t)n : 0);
	else if (n <= 0)
		conn_free(c);
	else
		take_bytes(c, p, had + (size_t)n, (size_t)n);
}

/* While the gate asks and dials. What arrives is kept up to a head's worth; more waits in the
 * socket. */
static void
read_behind(struct conn *c)
{
	unsigned char bytes[HEAD_START];
	size_t room = PROXY_HEAD_MAX - c->n;
	ssize_t n = recv(c->fd, bytes, room < sizeof(bytes) ? room : sizeof(bytes), 0);
	unsigned char *buf;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 || (n == 0 && gate_asks(c->gate))) {
		conn_free(c);
		return;
	}
	if (n > 0) {
		buf = realloc(c->buf, c->n + (size_t)n);
		if (buf == NULL) {
			conn_free(c);
			return;
		}
		memcpy(buf + c->n, bytes, (size_t)n);
		c->buf = buf;
		c->n = c->size = c->n + (size_t)n;
	}
	/* At its end the client has sent everything: a tunnel passes the end on after the bytes. */
	if (n == 0 || c->n >= PROXY_HEAD_MAX)
		ev_io_stop(loop_of(c), &c->io);
}

static void
read_past(struct conn *c)
{
	static unsigned char nothing[PROXY_HEAD_MAX];
	ssize_t n = recv(c->fd, nothing, sizeof(nothing), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->lingered += n > 0 ? (size_t)n : 0;
	if (n <= 0 || c->lingered > LINGER_MAX)
		conn_free(c);
}

static void
on_readable(struct ev_loop *loop, ev_io *w, int events)
{
	struct conn *c = w->data;

	if (c->state == CONN_GATE)
		read_behind(c);
	else if (c->state == CONN_LINGER)
		read_past(c);
	else
		read_head(c);
}

static void
on_time(struct ev_loop *loop, ev_timer *w, int events)
{
	struct conn *c = w->data;

	if (c->surplus && c->state == CONN_FIRST)
		refuse_surplus(c, NULL, 0);
	/* A client that has sent nothing gets no answer: it may have opened the connection in
	 * advance. */
	else if (c->state == CONN_HTTP)
		conn_refuse(c, 408, "too_slow", "the head of the request did not arrive in time");
	else if (c->state == CONN_SOCKS_GREETING || c->state == CONN_SOCKS_REQUEST)
		refuse_socks(c, SOCKS_FAILURE, "it did not arrive in time");
	else
		conn_free(c);
}

/* ---- start ---- */

void
conn_start(struct listener *l, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		close(fd);
		return;
	}
	c->l = l;
	c->fd = fd;
	c->next = l->conns;
	if (c->next != NULL)
		c->next->prev = c;
	l->conns = c;
	l->n_conns++;
	ev_io_init(&c->io, on_readable, fd, EV_READ);
	ev_timer_init(&c->timer, on_time, 0, 0);
	c->io.data = c->timer.data = c;
	set_time(c, PROXY_HEAD_SECS);
	if (l->n_conns > PROXY_CONNS_MAX + REFUSED_MAX) {
		conn_free(c);
		return;
	}
	if (l->n_conns > PROXY_CONNS_MAX) {
		c->surplus = true;
		set_time(c, REFUSED_SECS);
	}
	/* The first bytes may be here already; else the first event announces them. */
	read_head(c);
}
