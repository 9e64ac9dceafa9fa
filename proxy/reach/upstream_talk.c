/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/reach/upstream_talk.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/accept/socks.h"
#include "shared/base/cleanup.h"

/* The limit of the proxy's answer to CONNECT. */
#define ANSWER_MAX 8192

/* Judges the answer that is awaited, of which n bytes are known (t->in). True: wait for more, or
 * for the next answer. False: the talk is over. */
typedef bool talk_step_fn(struct upstream_talk *t, size_t n);

struct upstream_talk {
	struct ev_loop *loop;
	ev_io io;
	int fd;
	const struct upstream_proxy *via;
	struct target target;
	talk_step_fn *step;
	unsigned char out[ANSWER_MAX];
	size_t out_off, out_len;
	unsigned char in[ANSWER_MAX];
	size_t have; /* bytes of `in` that were taken from the socket */
	upstream_talk_fn *fn;
	void *data;
};

/* ---- the end ---- */

static void
talk_free(struct upstream_talk *t)
{
	ev_io_stop(t->loop, &t->io);
	if (t->fd >= 0)
		close(t->fd);
	sodium_memzero(t->out, sizeof(t->out)); /* credentials */
	free(t);
}

static bool
talk_failed(struct upstream_talk *t, const char *why)
{
	upstream_talk_fn *fn = t->fn;
	void *data = t->data;

	talk_free(t);
	fn(data, -1, why);
	return false;
}

static bool
talk_done(struct upstream_talk *t)
{
	upstream_talk_fn *fn = t->fn;
	void *data = t->data;
	int fd = take_fd(&t->fd);

	talk_free(t);
	fn(data, fd, NULL);
	return false;
}

/* ---- steps ---- */

/* Consume peeked bytes, up to n in all, and leave the rest in the socket. False: the talk has
 * ended. */
static bool
talk_take(struct upstream_talk *t, size_t n)
{
	while (t->have < n) {
		ssize_t k = recv(t->fd, t->in + t->have, n - t->have, MSG_DONTWAIT);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return talk_failed(t, "closed the connection");
		t->have += (size_t)k;
	}
	return true;
}

static bool
talk_next(struct upstream_talk *t, talk_step_fn *step)
{
	t->have = 0;
	t->step = step;
	return true;
}

/* Printable ASCII, whatever the other side has sent. */
static void
quote_line(char *buf, size_t size, const unsigned char *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n && i + 1 < size; i++)
		buf[i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : '?';
	buf[i] = '\0';
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

static bool
http_answer_came(struct upstream_talk *t, size_t n)
{
	static const char version[] = "HTTP/1.";
	const unsigned char *end = end_of_head(t->in, n);
	char line[64], what[sizeof(line) + sizeof("answered ")];
	size_t len = sizeof(version) - 1;

	if (memcmp(t->in, version, n < len ? n : len) != 0)
		return talk_failed(t, "does not speak HTTP");
	if (end == NULL) {
		if (n < ANSWER_MAX)
			return talk_take(t, n);
		return talk_failed(t, "sent an answer that is too long");
	}
	n = (size_t)(end - t->in);
	if (!talk_take(t, n))
		return false;
	/* "HTTP/1.1 200 ..." */
	if (n < len + 6 || t->in[len + 1] != ' ' || t->in[len + 2] < '1' || t->in[len + 2] > '5')
		return talk_failed(t, "sent an answer that is not HTTP");
	if (t->in[len + 2] == '2')
		return talk_done(t);
	if (t->in[len + 2] == '1')
		return talk_next(t, http_answer_came);
	quote_line(line, sizeof(line), t->in + len + 2,
	    strcspn((const char *)t->in + len + 2, "\r\n"));
	snprintf(what, sizeof(what), "answered %s", line);
	return talk_failed(t, what);
}

static bool
socks_reply_came(struct upstream_talk *t, size_t n)
{
	size_t len = 0;
	unsigned char code = 0;
	char what[64];

	switch (socks_client_reply(t->in, n, &len, &code)) {
	case SOCKS_INCOMPLETE:
		return talk_take(t, n);
	case SOCKS_OK:
		return talk_take(t, len) && talk_done(t);
	case SOCKS_REFUSE:
		snprintf(what, sizeof(what), "refused, with SOCKS code %u", code);
		return talk_failed(t, what);
	case SOCKS_NO_METHOD:
	case SOCKS_BAD:
		break;
	}
	return talk_failed(t, "sent an answer that is not SOCKS");
}

static bool
send_socks_request(struct upstream_talk *t)
{
	t->out_len = socks_client_request(t->target.host, t->target.kind, t->target.port, t->out);
	return talk_next(t, socks_reply_came);
}

static bool
socks_login_came(struct upstream_talk *t, size_t n)
{
	size_t len = 0;

	switch (socks_client_logged_in(t->in, n, &len)) {
	case SOCKS_INCOMPLETE:
		return talk_take(t, n);
	case SOCKS_OK:
		return talk_take(t, len) && send_socks_request(t);
	case SOCKS_REFUSE:
	case SOCKS_NO_METHOD:
	case SOCKS_BAD:
		break;
	}
	return talk_failed(t, "does not accept the user's name and password");
}

static bool
socks_method_came(struct upstream_talk *t, size_t n)
{
	unsigned char method = 0;
	size_t len = 0;

	switch (socks_client_method(t->in, n, t->via->has_credentials, &len, &method)) {
	case SOCKS_INCOMPLETE:
		return talk_take(t, n);
	case SOCKS_OK:
		if (!talk_take(t, len))
			return false;
		if (method == 0)
			return send_socks_request(t);
		t->out_len = socks_client_login(t->via->user, t->via->password, t->out);
		return talk_next(t, socks_login_came);
	case SOCKS_NO_METHOD:
		return talk_failed(t, "wants a kind of login that is not supported");
	case SOCKS_REFUSE:
	case SOCKS_BAD:
		break;
	}
	return talk_failed(t, "does not speak SOCKS5");
}

static size_t
write_connect(const struct upstream_talk *t, unsigned char *buf, size_t size)
{
	const char *host = t->target.host;
	unsigned port = t->target.port;
	char *at = (char *)buf;
	size_t n = (size_t)snprintf(at, size, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", host,
	    port, host, port);

	if (t->via->has_credentials) {
		char plain[2 * UPSTREAM_CREDENTIALS_MAX + 2];
		int len = snprintf(plain, sizeof(plain), "%s:%s", t->via->user, t->via->password);

		n += (size_t)snprintf(at + n, size - n, "Proxy-Authorization: Basic ");
		sodium_bin2base64(at + n, size - n, (const unsigned char *)plain, (size_t)len,
		    sodium_base64_VARIANT_ORIGINAL);
		n += strlen(at + n);
		n += (size_t)snprintf(at + n, size - n, "\r\n");
		sodium_memzero(plain, sizeof(plain));
	}
	return n + (size_t)snprintf(at + n, size - n, "\r\n");
}

/* ---- the loop ---- */

/* Returns true when everything is sent, or sending failed. */
static bool
talk_flush(struct upstream_talk *t)
{
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

static void
talk_wait(struct upstream_talk *t, int events)
{
	ev_io_stop(t->loop, &t->io);
	ev_io_set(&t->io, t->fd, events);
	ev_io_start(t->loop, &t->io);
}

/* Proceed as far as possible. */
static void
on_talk(struct ev_loop *loop, ev_io *io, int revents)
{
	struct upstream_talk *t = io->data;

	for (;;) {
		bool sent = talk_flush(t);
		ssize_t n = -1;

		do
			n = recv(t->fd, t->in + t->have, sizeof(t->in) - t->have,
			    MSG_PEEK | MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN) {
			talk_wait(t, sent ? EV_READ : EV_READ | EV_WRITE);
			return;
		}
		if (n <= 0) {
			talk_failed(t, "closed the connection");
			return;
		}
		if (!t->step(t, t->have + (size_t)n))
			return;
	}
}

struct upstream_talk *
upstream_talk_start(struct ev_loop *loop, const struct upstream_proxy *via,
    const struct target *target, int fd, upstream_talk_fn *fn, void *data)
{
	struct upstream_talk *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		close(fd);
		return NULL;
	}
	t->loop = loop;
	t->fd = fd;
	t->via = via;
	t->target = *target;
	t->fn = fn;
	t->data = data;
	ev_init(&t->io, on_talk);
	t->io.data = t;
	if (via->kind == UPSTREAM_HTTP) {
		t->out_len = write_connect(t, t->out, sizeof(t->out));
		t->step = http_answer_came;
	} else {
		t->out_len = socks_client_greeting(via->has_credentials, t->out);
		t->step = socks_method_came;
	}
	/* Begin from the loop: fn is not called before this function has returned. */
	ev_feed_event(loop, &t->io, EV_WRITE);
	return t;
}

void
upstream_talk_cancel(struct upstream_talk *t)
{
	talk_free(t);
}
