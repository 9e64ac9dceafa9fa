#include "proxy/reach/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/accept/socks.h"
#include "proxy/control.h"
#include "proxy/reach/resolve.h"
#include "shared/base/cleanup.h"

/* RFC 8305: the next address is tried before the last attempt has failed. */
#define STAGGER_SECS 0.25
/* A name that the user's proxy is to reach is resolved here only to see where it leads. In
 * networks with such a proxy, look-ups of outside names often time out: how long to wait for
 * one, how long while such a time-out is remembered, and for how long it is remembered. */
#define LOOK_UP_SECS       2.0
#define LOOK_UP_AGAIN_SECS 0.2
#define SILENT_SECS        60.0
/* The limit of the user's proxy's answer to CONNECT. */
#define ANSWER_MAX 8192
/* Probe an idle peer after a minute: NAT gateways forget connections that are idle for longer. */
#define KEEPALIVE_SECS 60

struct attempt {
	struct dial *dial;
	ev_io io;
	int fd; /* -1: not started, or ended */
};

/* The exchange with the user's proxy. */
struct talk {
	ev_io io;
	int fd;
	bool (*step)(struct dial *d, size_t n); /* judges the answer; see http_answer() */
	unsigned char out[ANSWER_MAX];
	size_t out_off, out_len;
	unsigned char in[ANSWER_MAX];
	size_t have; /* bytes of `in` that were taken from the socket */
};

struct dial {
	struct proxy *proxy;
	uint64_t slot;
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;
	unsigned port;
	bool plain;
	const struct upstream_proxy *via;
	struct resolve *resolve;
	struct want *want;
	ev_timer limit, step;

	/* The race: addresses that may be connected to, in the order of the attempts. */
	struct attempt *attempts;
	struct sockaddr_storage *addresses;
	size_t n, next, running;
	bool refused, timed_out, no_resources;
	int errnum; /* of the first attempt that failed */

	struct talk *talk;

	bool starting; /* in dial_start(): the callback has to wait */
	ev_timer done; /* fed in that case */
	struct dial_result result;
	dial_fn *fn;
	void *data;
};

/* ---- the end ---- */

static void
race_stop(struct dial *d)
{
	for (size_t i = 0; i < d->n; i++) {
		struct attempt *a = &d->attempts[i];

		if (a->fd < 0)
			continue;
		ev_io_stop(d->proxy->loop, &a->io);
		close(take_fd(&a->fd));
	}
	free(take_ptr(&d->attempts));
	free(take_ptr(&d->addresses));
	d->n = d->next = d->running = 0;
	ev_timer_stop(d->proxy->loop, &d->step);
}

static void
talk_stop(struct dial *d)
{
	struct talk *t = take_ptr(&d->talk);

	if (t == NULL)
		return;
	ev_io_stop(d->proxy->loop, &t->io);
	if (t->fd >= 0)
		close(t->fd);
	sodium_memzero(t->out, sizeof(t->out)); /* credentials */
	free(t);
}

static void
release(struct dial *d)
{
	struct ev_loop *loop = d->proxy->loop;

	if (d->resolve != NULL)
		resolve_cancel(take_ptr(&d->resolve));
	if (d->want != NULL)
		want_cancel(take_ptr(&d->want));
	race_stop(d);
	talk_stop(d);
	ev_timer_stop(loop, &d->limit);
	ev_timer_stop(loop, &d->step);
}

static void
deliver(struct dial *d)
{
	struct dial_result result = d->result;
	dial_fn *fn = d->fn;
	void *data = d->data;

	free(d);
	fn(data, &result);
}

static void
on_done(struct ev_loop *loop, ev_timer *t, int revents)
{
	deliver(t->data);
}

/* End the dial. d may be freed: the caller has to return. */
static void
finish(struct dial *d)
{
	release(d);
	if (d->starting)
		ev_feed_event(d->proxy->loop, &d->done, EV_CUSTOM);
	else
		deliver(d);
}

static void fail(struct dial *d, enum dial_error error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
fail(struct dial *d, enum dial_error error, const char *fmt, ...)
{
	va_list ap;

	d->result.error = error;
	va_start(ap, fmt);
	vsnprintf(d->result.detail, sizeof(d->result.detail), fmt, ap);
	va_end(ap);
	finish(d);
}

static void
succeed(struct dial *d, int fd)
{
	const int one = 1, idle = KEEPALIVE_SECS;

	/* These fail on a Unix socket of the policy's map, which has no such options. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	d->result.fd = fd;
	finish(d);
}

static void
on_limit(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dial *d = t->data;

	if (d->via != NULL && (d->talk != NULL || d->n > 0))
		fail(d, DIAL_TIMEOUT, "the proxy %s:%u did not answer in time", d->via->host,
		    d->via->port);
	else if (d->resolve != NULL)
		fail(d, DIAL_TIMEOUT, "no name server answered for %s in time", d->host);
	else
		fail(d, DIAL_TIMEOUT, "%s:%u did not answer in time", d->host, d->port);
}

/* ---- is an address this machine's? ---- */

static socklen_t
length_of(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool
can_bind(const struct sockaddr *sa)
{
	struct sockaddr_storage ss = { 0 };
	cleanup_close int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno != EAFNOSUPPORT; /* unknown: treated as this machine's */
	memcpy(&ss, sa, length_of(sa));
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)&ss)->sin6_port = 0;
	else
		((struct sockaddr_in *)&ss)->sin_port = 0;
	return bind(fd, (struct sockaddr *)&ss, length_of(sa)) == 0;
}

/* Is sa one of this machine's addresses? The kernel reaches such an address from itself. */
static bool
is_source(const struct sockaddr *sa)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	cleanup_close int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno != EAFNOSUPPORT;
	if (connect(fd, sa, length_of(sa)) < 0 || getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	if (sa->sa_family == AF_INET6)
		return memcmp(&((struct sockaddr_in6 *)&ss)->sin6_addr,
			   &((const struct sockaddr_in6 *)sa)->sin6_addr,
			   sizeof(struct in6_addr)) == 0;
	return ((struct sockaddr_in *)&ss)->sin_addr.s_addr ==
	    ((const struct sockaddr_in *)sa)->sin_addr.s_addr;
}

/* Does bind() succeed for every address (ip_nonlocal_bind)? Tested with an address that no
 * machine has. */
static bool
binds_anything(int family)
{
	static int known[2] = { -1, -1 };
	int *k = &known[family == AF_INET6];

	if (*k < 0) {
		int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		const struct sockaddr_in in = { .sin_family = AF_INET,
			.sin_addr.s_addr = htonl(0xc0000201) /* 192.0.2.1 */ };
		const struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
			.sin6_addr.s6_addr = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } };

		/* Without a free descriptor the question stays open for the next call; until
		 * then can_bind() fails, too, and treats every address as this machine's. */
		if (fd < 0 && errno != EAFNOSUPPORT)
			return false;
		if (fd >= 0)
			close(fd);
		*k = can_bind(family == AF_INET6 ? (const struct sockaddr *)&in6
						 : (const struct sockaddr *)&in);
	}
	return *k > 0;
}

static bool
is_own(const struct sockaddr *sa)
{
	return binds_anything(sa->sa_family) ? is_source(sa) : can_bind(sa);
}

static struct egress_verdict
judge(struct dial *d, const struct sockaddr *sa, bool *ret_own)
{
	/* An address that is not public needs a rule that names it, no matter to whom it belongs. */
	*ret_own = address_classify(sa) == ADDRESS_PUBLIC && is_own(sa);
	return egress_judge_address(d->proxy->rules, sa, d->port, *ret_own);
}

/* ---- the race ---- */

static void race_next(struct dial *d);
static void connected(struct dial *d, int fd);

static void
lost(struct dial *d, int errnum)
{
	if (errnum == ECONNREFUSED)
		d->refused = true;
	else if (errnum == ETIMEDOUT)
		d->timed_out = true;
	else if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM || errnum == ENOBUFS ||
	    errnum == EAGAIN)
		d->no_resources = true;
	if (d->errnum == 0)
		d->errnum = errnum;
}

static void
race_lost(struct dial *d)
{
	const char *host = d->host;
	unsigned port = d->port;
	enum dial_error error = DIAL_UNREACHABLE;
	char of_proxy[DOMAIN_HOST_MAX + 32] = "";

	if (d->no_resources)
		error = DIAL_RESOURCES;
	else if (d->timed_out)
		error = DIAL_TIMEOUT;
	else if (d->refused)
		error = DIAL_REFUSED;
	if (d->via != NULL) {
		host = d->via->host;
		port = d->via->port;
		if (error != DIAL_RESOURCES && error != DIAL_TIMEOUT)
			error = DIAL_UPSTREAM;
		snprintf(of_proxy, sizeof(of_proxy), "the proxy ");
	}
	fail(d, error, "cannot connect to %s%s:%u: %s", of_proxy, host, port, strerror(d->errnum));
}

static int
error_of(int fd)
{
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0 ? errno : errnum;
}

static void
won(struct dial *d, struct attempt *a)
{
	int fd;

	ev_io_stop(d->proxy->loop, &a->io);
	fd = take_fd(&a->fd);
	race_stop(d);
	connected(d, fd);
}

static void
on_connect(struct ev_loop *loop, ev_io *io, int revents)
{
	struct attempt *a = io->data;
	struct dial *d = a->dial;
	int errnum = error_of(a->fd);

	if (errnum == 0) {
		won(d, a);
		return;
	}
	ev_io_stop(loop, io);
	close(take_fd(&a->fd));
	d->running--;
	lost(d, errnum);
	race_next(d);
}

/* 1: connected; 0: going on; -1: failed. */
static int
attempt_start(struct dial *d, struct attempt *a, const struct sockaddr *sa)
{
	cleanup_close int fd =
	    socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	int r;

	if (fd < 0) {
		lost(d, errno);
		return -1;
	}
	r = connect(fd, sa, length_of(sa));
	/* On this machine or a nearby one, the connection is already established, and a second
	 * connect() reports that: this saves a trip through the loop. */
	if (r < 0 && errno == EINPROGRESS)
		r = connect(fd, sa, length_of(sa));
	if (r < 0 && errno != EALREADY && errno != EISCONN) {
		lost(d, errno);
		return -1;
	}
	a->fd = take_fd(&fd);
	if (r == 0 || errno == EISCONN)
		return 1;
	ev_io_init(&a->io, on_connect, a->fd, EV_WRITE);
	a->io.data = a;
	ev_io_start(d->proxy->loop, &a->io);
	d->running++;
	return 0;
}

static void
race_next(struct dial *d)
{
	struct ev_loop *loop = d->proxy->loop;

	ev_timer_stop(loop, &d->step);
	while (d->next < d->n) {
		struct attempt *a = &d->attempts[d->next];
		int r = attempt_start(d, a, (struct sockaddr *)&d->addresses[d->next]);

		d->next++;
		if (r > 0) {
			won(d, a);
			return;
		}
		if (r < 0)
			continue;
		if (d->next < d->n) {
			ev_timer_set(&d->step, STAGGER_SECS, 0);
			ev_timer_start(loop, &d->step);
		}
		return;
	}
	if (d->running == 0)
		race_lost(d);
}

/* Order the addresses with alternating families as long as both last; each family in the given
 * order. */
static void
race(struct dial *d, const struct sockaddr_storage *list, size_t n)
{
	size_t at[2] = { 0, 0 };
	sa_family_t first = list[0].ss_family;

	d->addresses = calloc(n, sizeof(*d->addresses));
	d->attempts = calloc(n, sizeof(*d->attempts));
	if (d->addresses == NULL || d->attempts == NULL) {
		fail(d, DIAL_RESOURCES, "no memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		size_t turn = i & 1;

		for (;; turn ^= 1) { /* one family may have more */
			size_t *k = &at[turn];

			while (*k < n && (list[*k].ss_family == first) != (turn == 0))
				++*k;
			if (*k < n)
				break;
		}
		d->addresses[i] = list[at[turn]++];
		d->attempts[i].dial = d;
		d->attempts[i].fd = -1;
	}
	d->n = n;
	race_next(d);
}

/* ---- through the user's own proxy ---- */

/* Printable ASCII, whatever the other side has sent. */
static void
quote(char *buf, size_t size, const unsigned char *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n && i + 1 < size; i++)
		buf[i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '?';
	buf[i] = '\0';
}

static void
refused_by_proxy(struct dial *d, const char *what)
{
	fail(d, DIAL_UPSTREAM, "the proxy %s:%u %s", d->via->host, d->via->port, what);
}

/* Consume peeked bytes, up to n in all, and leave the rest in the socket. Returns -1 if the dial
 * has ended. */
static int
talk_take(struct dial *d, size_t n)
{
	struct talk *t = d->talk;

	while (t->have < n) {
		ssize_t k = recv(t->fd, t->in + t->have, n - t->have, MSG_DONTWAIT);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			refused_by_proxy(d, "has closed the connection");
			return -1;
		}
		t->have += (size_t)k;
	}
	return 0;
}

static bool
talk_next(struct dial *d, bool (*step)(struct dial *d, size_t n))
{
	d->talk->have = 0;
	d->talk->step = step;
	return true;
}

static bool
talk_done(struct dial *d)
{
	succeed(d, take_fd(&d->talk->fd));
	return false;
}

static const unsigned char *
end_of_head(const unsigned char *p, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (p[i] != '\n')
			continue;
		if (p[i - 1] == '\n' || (i >= 2 && p[i - 1] == '\r' && p[i - 2] == '\n'))
			return p + i + 1;
	}
	return NULL;
}

/* Steps get n known bytes (t->in). True: wait for more, or for the next answer. False: the talk
 * is over. */
static bool
http_answer(struct dial *d, size_t n)
{
	static const char version[] = "HTTP/1.";
	struct talk *t = d->talk;
	const unsigned char *end = end_of_head(t->in, n);
	char line[64], what[sizeof(line) + sizeof("answered ")];
	size_t len = sizeof(version) - 1;

	if (memcmp(t->in, version, n < len ? n : len) != 0) {
		refused_by_proxy(d, "does not speak HTTP");
		return false;
	}
	if (end == NULL) {
		if (n < ANSWER_MAX)
			return talk_take(d, n) == 0;
		refused_by_proxy(d, "has answered too much");
		return false;
	}
	n = (size_t)(end - t->in);
	if (talk_take(d, n) < 0)
		return false;
	/* "HTTP/1.1 200 ..." */
	if (n < len + 6 || t->in[len + 1] != ' ' || t->in[len + 2] < '1' || t->in[len + 2] > '5') {
		refused_by_proxy(d, "has answered what is no HTTP");
		return false;
	}
	if (t->in[len + 2] == '2')
		return talk_done(d);
	if (t->in[len + 2] == '1')
		return talk_next(d, http_answer);
	quote(line, sizeof(line), t->in + len + 2, strcspn((const char *)t->in + len + 2, "\r\n"));
	snprintf(what, sizeof(what), "answered %s", line);
	refused_by_proxy(d, what);
	return false;
}

static bool
socks_reply_came(struct dial *d, size_t n)
{
	size_t len = 0;
	unsigned char code = 0;
	char what[64];

	switch (socks_client_reply(d->talk->in, n, &len, &code)) {
	case SOCKS_INCOMPLETE:
		return talk_take(d, n) == 0;
	case SOCKS_OK:
		return talk_take(d, len) == 0 && talk_done(d);
	case SOCKS_REFUSE:
		snprintf(what, sizeof(what), "refused, with SOCKS code %u", code);
		refused_by_proxy(d, what);
		return false;
	case SOCKS_NO_METHOD:
	case SOCKS_BAD:
		break;
	}
	refused_by_proxy(d, "has answered what is no SOCKS");
	return false;
}

static bool
socks_ask(struct dial *d)
{
	struct talk *t = d->talk;

	t->out_len = socks_client_request(d->host, d->kind, d->port, t->out);
	return talk_next(d, socks_reply_came);
}

static bool
socks_login_came(struct dial *d, size_t n)
{
	size_t len = 0;

	switch (socks_client_logged_in(d->talk->in, n, &len)) {
	case SOCKS_INCOMPLETE:
		return talk_take(d, n) == 0;
	case SOCKS_OK:
		return talk_take(d, len) == 0 && socks_ask(d);
	case SOCKS_REFUSE:
	case SOCKS_NO_METHOD:
	case SOCKS_BAD:
		break;
	}
	refused_by_proxy(d, "does not accept the user's name and password");
	return false;
}

static bool
socks_method_came(struct dial *d, size_t n)
{
	struct talk *t = d->talk;
	unsigned char method = 0;
	size_t len = 0;

	switch (socks_client_method(t->in, n, d->via->has_credentials, &len, &method)) {
	case SOCKS_INCOMPLETE:
		return talk_take(d, n) == 0;
	case SOCKS_OK:
		if (talk_take(d, len) < 0)
			return false;
		if (method == 0)
			return socks_ask(d);
		t->out_len = socks_client_login(d->via->user, d->via->password, t->out);
		return talk_next(d, socks_login_came);
	case SOCKS_NO_METHOD:
		refused_by_proxy(d, "wants another way to log in");
		return false;
	case SOCKS_REFUSE:
	case SOCKS_BAD:
		break;
	}
	refused_by_proxy(d, "does not speak SOCKS5");
	return false;
}

static size_t
http_connect(const struct dial *d, unsigned char *buf, size_t size)
{
	char *at = (char *)buf;
	size_t n = (size_t)snprintf(at, size, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", d->host,
	    d->port, d->host, d->port);

	if (d->via->has_credentials) {
		char plain[2 * UPSTREAM_CREDENTIALS_MAX + 2];
		int len = snprintf(plain, sizeof(plain), "%s:%s", d->via->user, d->via->password);

		n += (size_t)snprintf(at + n, size - n, "Proxy-Authorization: Basic ");
		sodium_bin2base64(at + n, size - n, (const unsigned char *)plain, (size_t)len,
		    sodium_base64_VARIANT_ORIGINAL);
		n += strlen(at + n);
		n += (size_t)snprintf(at + n, size - n, "\r\n");
		sodium_memzero(plain, sizeof(plain));
	}
	return n + (size_t)snprintf(at + n, size - n, "\r\n");
}

/* Returns true when everything is sent, or sending failed. */
static bool
talk_flush(struct dial *d)
{
	struct talk *t = d->talk;

	while (t->out_off < t->out_len) {
		ssize_t n = send(t->fd, t->out + t->out_off, t->out_len - t->out_off,
		    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) /* the next read reports the error */
			return errno != EAGAIN;
		t->out_off += (size_t)n;
	}
	t->out_off = t->out_len = 0;
	return true;
}

/* Proceed as far as possible. */
static void
talk(struct dial *d)
{
	for (;;) {
		struct talk *t = d->talk;
		bool sent = talk_flush(d);
		ssize_t n = -1;

		do
			n = recv(t->fd, t->in + t->have, sizeof(t->in) - t->have,
			    MSG_PEEK | MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN) {
			int events = sent ? EV_READ : EV_READ | EV_WRITE;

			ev_io_stop(d->proxy->loop, &t->io);
			ev_io_set(&t->io, t->fd, events);
			ev_io_start(d->proxy->loop, &t->io);
			return;
		}
		if (n <= 0) {
			refused_by_proxy(d, "has closed the connection");
			return;
		}
		if (!t->step(d, t->have + (size_t)n))
			return;
	}
}

static void
on_talk(struct ev_loop *loop, ev_io *io, int revents)
{
	talk(io->data);
}

static void
connected(struct dial *d, int fd)
{
	struct talk *t;

	if (d->via == NULL) {
		succeed(d, fd);
		return;
	}
	if (d->plain && d->via->kind == UPSTREAM_HTTP) {
		d->result.via = d->via;
		succeed(d, fd);
		return;
	}
	t = d->talk = calloc(1, sizeof(*t));
	if (t == NULL) {
		close(fd);
		fail(d, DIAL_RESOURCES, "no memory");
		return;
	}
	t->fd = fd;
	ev_init(&t->io, on_talk);
	t->io.data = d;
	if (d->via->kind == UPSTREAM_HTTP) {
		t->out_len = http_connect(d, t->out, sizeof(t->out));
		t->step = http_answer;
	} else {
		t->out_len = socks_client_greeting(d->via->has_credentials, t->out);
		t->step = socks_method_came;
	}
	talk(d);
}

static void
on_proxy_resolved(void *data, const struct resolve_result *result)
{
	struct dial *d = data;

	d->resolve = NULL;
	if (result->n == 0)
		fail(d, DIAL_UPSTREAM, "the proxy %s has no address: %s", d->via->host,
		    result->error);
	else
		race(d, result->address, result->n);
}

/* The proxy's own address is the user's decision, and is not judged. */
static void
go_by_proxy(struct dial *d)
{
	struct sockaddr_storage ss;
	socklen_t len;

	if (address_parse(d->via->host, d->via->port, &ss, &len)) {
		race(d, &ss, 1);
		return;
	}
	d->resolve = resolve_start(d->proxy->resolver, d->slot, d->via->host, d->via->port,
	    on_proxy_resolved, d);
	if (d->resolve == NULL)
		fail(d, DIAL_RESOURCES, "too many names are being looked up");
}

/* ---- where the name leads ---- */

static ev_tstamp silent_until;

static void
go(struct dial *d, const struct sockaddr_storage *list, size_t n)
{
	struct sockaddr_storage good[RESOLVE_ADDRESSES_MAX];
	const struct sockaddr *bad = NULL;
	bool own, bad_own = false;
	size_t n_good = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sockaddr *sa = (const struct sockaddr *)&list[i];

		if (judge(d, sa, &own).decision == EGRESS_ALLOW) {
			good[n_good++] = list[i];
		} else if (bad == NULL) {
			bad = sa;
			bad_own = own;
		}
	}
	if (d->via != NULL)
		d->via = upstream_for(&d->proxy->upstream, d->host, d->port, d->plain,
		    (const struct sockaddr *)&list[0]);
	/* The user's proxy may choose any of the addresses, so all have to be allowed. */
	if (n_good == 0 || (d->via != NULL && bad != NULL)) {
		d->result.error = DIAL_ADDRESS;
		egress_address_sentence(d->result.detail, sizeof(d->result.detail), d->host,
		    d->port, bad, bad_own, d->proxy->mode);
		finish(d);
		return;
	}
	if (d->via != NULL)
		go_by_proxy(d);
	else
		race(d, good, n_good);
}

static void
on_resolved(void *data, const struct resolve_result *result)
{
	struct dial *d = data;

	d->resolve = NULL;
	ev_timer_stop(d->proxy->loop, &d->step);
	if (result->n > 0)
		go(d, result->address, result->n);
	else if (d->via != NULL)
		go_by_proxy(d);
	else
		fail(d, result->timed_out ? DIAL_TIMEOUT : DIAL_DNS,
		    "cannot find the address of %s: %s", d->host, result->error);
}

static void
on_step(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dial *d = t->data;

	if (d->resolve == NULL) {
		race_next(d);
		return;
	}
	resolve_cancel(take_ptr(&d->resolve));
	silent_until = ev_now(loop) + SILENT_SECS;
	go_by_proxy(d);
}

static void
look_up(struct dial *d)
{
	struct ev_loop *loop = d->proxy->loop;

	d->resolve = resolve_start(d->proxy->resolver, d->slot, d->host, d->port, on_resolved, d);
	if (d->resolve == NULL) {
		fail(d, DIAL_RESOURCES, "too many names are being looked up");
		return;
	}
	if (d->via == NULL)
		return;
	ev_timer_set(&d->step, ev_now(loop) < silent_until ? LOOK_UP_AGAIN_SECS : LOOK_UP_SECS, 0);
	ev_timer_start(loop, &d->step);
}

/* ---- the policy's sockets ---- */

static const char *
mapped(const struct dial *d)
{
	const struct policy *policy = &d->proxy->policy;
	const char *found = NULL;

	for (size_t i = 0; i < policy->n_sockets; i++) {
		const char *pattern = policy->sockets[i].domain;
		struct domain domain;

		if (domain_parse(pattern, &domain) != NULL ||
		    !domain_matches(&domain, d->host, strlen(d->host), d->port, true))
			continue;
		if (!domain.wildcard)
			return pattern;
		found = pattern;
	}
	return found;
}

static void
on_mapped(void *data, int fd, int errnum)
{
	struct dial *d = data;

	d->want = NULL;
	if (fd >= 0)
		succeed(d, fd);
	else
		fail(d, errnum == ECONNREFUSED ? DIAL_REFUSED : DIAL_UNREACHABLE,
		    "cannot connect to the socket that the policy has for %s: %s", d->host,
		    strerror(errnum));
}

/* ---- start and cancel ---- */

struct dial *
dial_start(struct proxy *p, uint64_t slot, const char *host, enum domain_kind kind, unsigned port,
    bool plain, dial_fn *fn, void *data)
{
	struct dial *d = calloc(1, sizeof(*d));
	struct sockaddr_storage ss;
	const struct sockaddr *literal = NULL;
	const char *socket_of;
	socklen_t len;

	if (d == NULL)
		return NULL;
	d->proxy = p;
	d->slot = slot;
	snprintf(d->host, sizeof(d->host), "%s", host);
	d->kind = kind;
	d->port = port;
	d->plain = plain;
	d->fn = fn;
	d->data = data;
	d->result.fd = -1;
	d->starting = true;
	ev_timer_init(&d->limit, on_limit, PROXY_DIAL_SECS, 0);
	ev_init(&d->step, on_step);
	ev_init(&d->done, on_done);
	d->limit.data = d->step.data = d->done.data = d;
	ev_now_update(p->loop); /* so that the limit counts from now */
	ev_timer_start(p->loop, &d->limit);

	socket_of = mapped(d);
	if (socket_of != NULL) {
		d->want = want_socket(p, socket_of, on_mapped, d);
		if (d->want == NULL)
			fail(d, DIAL_RESOURCES, "no memory");
		d->starting = false;
		return d;
	}
	if (kind != DOMAIN_NAME && address_parse(host, port, &ss, &len))
		literal = (const struct sockaddr *)&ss;
	d->via = upstream_for(&p->upstream, host, port, plain, literal);
	if (literal != NULL)
		go(d, &ss, 1);
	else
		look_up(d);
	d->starting = false;
	return d;
}

void
dial_cancel(struct dial *d)
{
	release(d);
	ev_clear_pending(d->proxy->loop, &d->done);
	if (d->result.fd >= 0)
		close(d->result.fd);
	free(d);
}
