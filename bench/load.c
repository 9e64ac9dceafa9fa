/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_load serve
 * bench_load relay SERVER
 * bench_load conn SERVER PROXY N
 * bench_load rate SERVER PROXY N CLIENTS
 * bench_load bulk SERVER PROXY BYTES
 * bench_load idle SERVER PROXY N
 *
 * The server of the network rows and its clients. The same program connects directly and through a
 * proxy (CONNECT), inside a sandbox and outside. SERVER and PROXY are ports on 127.0.0.1; with
 * PROXY 0 the client connects directly.
 *
 *	serve  prints its port, and ends when its standard input ends. It answers "GET n" with n
 *	       bytes and the end of the stream, and "HOLD n" with n bytes
 *	relay  starts and ends like serve, and does the least that a proxy can do: it takes
 *	       whatever it reads first for a request, connects to SERVER, answers 200 and copies.
 *	       It checks nothing, resolves no name, has no limit and reports nothing
 *	conn   makes N connections one after another, and reads 4 KiB and the end of the stream from
 *	       each. Prints the median and the 99th percentile of their durations, in ns
 *	rate   does the same with CLIENTS connections at a time. Prints the ns per connection
 *	bulk   reads BYTES bytes from one connection. Prints the ns from connect() to the last byte
 *	idle   makes N connections, reads 4 KiB from each, prints "ready" and keeps them open until
 *	       its standard input ends
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"

#define ANSWER      4096
#define CHUNK       (256u << 10)
#define HEAD_MAX    1024
#define EVENTS      64
#define CLIENTS_MAX 1024

static char chunk[CHUNK];

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static struct sockaddr_in
loopback(unsigned port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Raise the limit of descriptors as far as allowed: each connection needs one here, and there are
 * thousands. */
static void
raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void
watch(int epoll, int fd, uint32_t events, void *data)
{
	struct epoll_event ev = { .events = events, .data.ptr = data };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		err(1, "epoll");
}

/* ---- the server ---- */

struct served {
	int fd;
	char line[32];
	size_t n_line;
	bool asked, hold;
	uint64_t left;
};

/* Read the request and send the answer, as far as the socket allows now. Returns false when the
 * connection is finished; the caller then closes and frees it. */
static bool
serve_more(struct served *s)
{
	ssize_t n;

	while (!s->asked) {
		n = recv(s->fd, s->line + s->n_line, sizeof(s->line) - 1 - s->n_line, 0);
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		s->n_line += (size_t)n;
		s->line[s->n_line] = '\0';
		if (s->line[s->n_line - 1] == '\n') {
			s->asked = true;
			s->hold = strncmp(s->line, "HOLD ", 5) == 0;
			s->left = strtoull(s->line + (s->hold ? 5 : 4), NULL, 10);
		} else if (s->n_line == sizeof(s->line) - 1) {
			return false;
		}
	}
	while (s->left > 0) {
		n = send(s->fd, chunk, s->left < CHUNK ? s->left : CHUNK, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN;
		s->left -= (uint64_t)n;
	}
	if (!s->hold)
		return false;
	n = recv(s->fd, s->line, sizeof(s->line), 0);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

static void
accept_all(int epoll, int listener)
{
	struct served *s;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			err(1, "connection");
		s->fd = fd;
		if (serve_more(s)) {
			watch(epoll, fd, EPOLLIN | EPOLLOUT | EPOLLET, s);
		} else {
			close(fd);
			free(s);
		}
	}
	if (errno != EAGAIN && errno != ECONNABORTED)
		err(1, "accept");
}

static int
listen_and_say(void)
{
	struct sockaddr_in at = loopback(0);
	socklen_t len = sizeof(at);
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		err(1, "server");
	printf("%u\n", ntohs(at.sin_port));
	fflush(stdout);
	return fd;
}

static int
serve(void)
{
	struct epoll_event events[EVENTS];
	static struct served listener, input;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		err(1, "epoll");
	listener.fd = listen_and_say();
	watch(epoll, listener.fd, EPOLLIN, &listener);
	watch(epoll, STDIN_FILENO, EPOLLIN, &input);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			struct served *s = events[i].data.ptr;

			if (s == &input)
				return 0;
			if (s == &listener) {
				accept_all(epoll, listener.fd);
			} else if (!serve_more(s)) {
				close(s->fd);
				free(s);
			}
		}
	}
}

/* ---- a minimal proxy ---- */

struct side {
	int fd;
	struct side *other; /* NULL: no request has come yet */
	bool ended;         /* it has sent everything */
	struct side *next;  /* in the list of connections to free */
};

static struct side *
side_new(int epoll, int fd, struct side *other)
{
	struct side *s = calloc(1, sizeof(*s));

	if (s == NULL || fd < 0)
		err(1, "connection");
	s->fd = fd;
	s->other = other;
	watch(epoll, fd, EPOLLIN, s);
	return s;
}

static void
relay_begin(struct side *client, int epoll, const struct sockaddr_in *server)
{
	static const char opened[] = "HTTP/1.1 200 OK\r\n\r\n";
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    (connect(fd, (const struct sockaddr *)server, sizeof(*server)) < 0 &&
		errno != EINPROGRESS))
		err(1, "connect");
	client->other = side_new(epoll, fd, client);
	if (send(client->fd, opened, sizeof(opened) - 1, MSG_NOSIGNAL) < 0)
		err(1, "send");
}

/* Copy what s has sent to the other side. The rows send so little that the other socket always has
 * room; otherwise the program ends. Returns true when both sides have ended. */
static bool
relay_more(struct side *s, int epoll, const struct sockaddr_in *server)
{
	ssize_t n = recv(s->fd, chunk, CHUNK, 0), more = -1;

	if (s->other == NULL && n > 0) {
		relay_begin(s, epoll, server);
		return false;
	}
	if (n > 0) {
		more = recv(s->fd, chunk + n, CHUNK - (size_t)n, 0);
		n += more > 0 ? more : 0;
		if (send(s->other->fd, chunk, (size_t)n,
			MSG_NOSIGNAL | (more == 0 ? MSG_MORE : 0)) != n)
			err(1, "relay");
	}
	if (n < 0 || (n > 0 && more != 0) || s->ended)
		return false;
	s->ended = true;
	if (s->other == NULL || s->other->ended)
		return true;
	shutdown(s->other->fd, SHUT_WR);
	epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
	return false;
}

static int
relay(unsigned port)
{
	const struct sockaddr_in server = loopback(port);
	struct epoll_event events[EVENTS];
	static struct side listener, input;
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd;

	if (epoll < 0)
		err(1, "epoll");
	listener.fd = listen_and_say();
	watch(epoll, listener.fd, EPOLLIN, &listener);
	watch(epoll, STDIN_FILENO, EPOLLIN, &input);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);
		struct side *over = NULL;

		for (int i = 0; i < n; i++) {
			struct side *s = events[i].data.ptr;

			if (s == &input)
				return 0;
			if (s == &listener) {
				while ((fd = accept4(s->fd, NULL, NULL,
					    SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
					side_new(epoll, fd, NULL);
			} else if (relay_more(s, epoll, &server)) {
				s->next = over;
				over = s;
			}
		}
		/* Free only now, because both sides of a connection may be among these events. */
		while (over != NULL) {
			struct side *s = over;

			over = s->next;
			if (s->other != NULL)
				close(s->other->fd);
			close(s->fd);
			free(s->other);
			free(s);
		}
	}
}

/* ---- one client ---- */

struct load {
	unsigned server, proxy;
	char connect[128], get[32];
	size_t n_connect, n_get;
};

static void
load_init(struct load *l, const char *verb, uint64_t bytes)
{
	l->n_connect = (size_t)snprintf(l->connect, sizeof(l->connect),
	    "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", l->server, l->server);
	l->n_get =
	    (size_t)snprintf(l->get, sizeof(l->get), "%s %llu\n", verb, (unsigned long long)bytes);
}

static void
say(int fd, const char *text, size_t n)
{
	/* The send buffer of a new connection has room for so few bytes. */
	if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
		err(1, "send");
}

/* Return whether buf ends with the end of a response head. Ends the program if the proxy
 * refused. */
static bool
head_is_whole(const char *buf, size_t n)
{
	if (n >= HEAD_MAX - 1)
		errx(1, "no end of the proxy's answer");
	if (n < 16 || memcmp(buf + n - 4, "\r\n\r\n", 4) != 0)
		return false;
	if (memcmp(buf, "HTTP/1.", 7) != 0 || memcmp(buf + 8, " 200", 4) != 0)
		errx(1, "refused: %.*s", (int)strcspn(buf, "\r\n"), buf);
	return true;
}

static int
open_one(const struct load *l, int type)
{
	struct sockaddr_in at = loopback(l->proxy != 0 ? l->proxy : l->server);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | type, 0);

	if (fd < 0)
		err(1, "socket");
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 && errno != EINPROGRESS)
		err(1, "connect");
	return fd;
}

/* Open a connection, through the proxy if there is one, and send the request. Returns the
 * descriptor, which the caller closes. */
static int
ask(const struct load *l)
{
	char head[HEAD_MAX];
	size_t got = 0;
	ssize_t n;
	int fd = open_one(l, 0);

	if (l->proxy != 0) {
		say(fd, l->connect, l->n_connect);
		do {
			n = recv(fd, head + got, sizeof(head) - 1 - got, 0);
			if (n <= 0)
				err(1, "the proxy ended it");
			got += (size_t)n;
			head[got] = '\0';
		} while (!head_is_whole(head, got));
	}
	say(fd, l->get, l->n_get);
	return fd;
}

static void
take(int fd, uint64_t bytes)
{
	ssize_t n;

	for (; bytes > 0; bytes -= (uint64_t)n) {
		n = recv(fd, chunk, bytes < CHUNK ? bytes : CHUNK, 0);
		if (n <= 0)
			err(1, "the answer ends early");
	}
}

static void
take_end(int fd)
{
	if (recv(fd, chunk, CHUNK, 0) != 0)
		err(1, "the answer does not end");
	close(fd);
}

static int
conn(struct load *l, size_t n)
{
	double *samples = calloc(n, sizeof(*samples));
	struct figure figure;

	if (samples == NULL)
		err(1, "samples");
	load_init(l, "GET", ANSWER);
	for (size_t i = 0; i < n; i++) {
		double start = now();
		int fd = ask(l);

		take(fd, ANSWER);
		take_end(fd);
		samples[i] = now() - start;
	}
	figure = figure_of(samples, n, false);
	printf("%.1f %.1f\n", figure.p50, figure.p99);
	free(samples);
	return 0;
}

static int
bulk(struct load *l, uint64_t bytes)
{
	double start;
	int fd;

	load_init(l, "GET", bytes);
	start = now();
	fd = ask(l);
	take(fd, bytes);
	printf("%.1f\n", now() - start);
	take_end(fd);
	return 0;
}

static int
idle(struct load *l, size_t n)
{
	char end[16];

	load_init(l, "HOLD", ANSWER);
	for (size_t i = 0; i < n; i++)
		take(ask(l), ANSWER);
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, end, sizeof(end)) > 0)
		;
	return 0;
}

/* ---- many clients in one process ---- */

enum step {
	STEP_CONNECT,
	STEP_HEAD,
	STEP_ANSWER,
};

struct client {
	int fd;
	enum step step;
	char head[HEAD_MAX];
	size_t got;
};

static void
client_begin(struct client *c, const struct load *l, int epoll)
{
	c->fd = open_one(l, SOCK_NONBLOCK);
	c->step = STEP_CONNECT;
	c->got = 0;
	watch(epoll, c->fd, EPOLLIN | EPOLLOUT | EPOLLET, c);
}

static void
client_say(struct client *c, const struct load *l, bool to_proxy)
{
	say(c->fd, to_proxy ? l->connect : l->get, to_proxy ? l->n_connect : l->n_get);
	c->step = to_proxy ? STEP_HEAD : STEP_ANSWER;
	c->got = 0;
}

/* Go on with a connection, as far as the socket allows now. Returns true when the whole answer and
 * the end of the stream have been read. */
static bool
client_more(struct client *c, const struct load *l, uint32_t events)
{
	ssize_t n;

	if (c->step == STEP_CONNECT) {
		if ((events & EPOLLOUT) == 0)
			return false;
		client_say(c, l, l->proxy != 0);
	}
	for (;;) {
		if (c->step == STEP_HEAD)
			n = recv(c->fd, c->head + c->got, HEAD_MAX - 1 - c->got, 0);
		else
			n = recv(c->fd, chunk, CHUNK, 0);
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0 || (n == 0 && (c->step != STEP_ANSWER || c->got != ANSWER)))
			err(1, "ended after %zu bytes", c->got);
		if (n == 0)
			return true;
		c->got += (size_t)n;
		c->head[c->step == STEP_HEAD ? c->got : 0] = '\0';
		if (c->step == STEP_HEAD && head_is_whole(c->head, c->got))
			client_say(c, l, false);
	}
}

static int
rate(struct load *l, size_t n, size_t clients)
{
	static struct client client[CLIENTS_MAX];
	struct epoll_event events[EVENTS];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	size_t begun = 0, done = 0;
	double start = now();

	load_init(l, "GET", ANSWER);
	if (epoll < 0 || clients > CLIENTS_MAX)
		err(1, "clients");
	for (; begun < clients && begun < n; begun++)
		client_begin(&client[begun], l, epoll);
	while (done < n) {
		int got = epoll_wait(epoll, events, EVENTS, 20000);

		if (got <= 0)
			err(1, "nothing comes any more, after %zu", done);
		for (int i = 0; i < got; i++) {
			struct client *c = events[i].data.ptr;

			if (!client_more(c, l, events[i].events))
				continue;
			close(c->fd);
			done++;
			if (begun++ < n)
				client_begin(c, l, epoll);
		}
	}
	printf("%.1f\n", (now() - start) / (double)n);
	return 0;
}

int
main(int argc, char **argv)
{
	struct load load;
	uint64_t n;

	raise_descriptors();
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc == 3 && strcmp(argv[1], "relay") == 0)
		return relay((unsigned)atoi(argv[2]));
	if (argc < 5 || (n = strtoull(argv[4], NULL, 10)) == 0)
		return 2;
	load = (struct load){ .server = (unsigned)atoi(argv[2]), .proxy = (unsigned)atoi(argv[3]) };
	if (strcmp(argv[1], "conn") == 0)
		return conn(&load, n);
	if (strcmp(argv[1], "bulk") == 0)
		return bulk(&load, n);
	if (strcmp(argv[1], "idle") == 0)
		return idle(&load, n);
	if (strcmp(argv[1], "rate") == 0 && argc == 6)
		return rate(&load, n, strtoul(argv[5], NULL, 10));
	return 2;
}
