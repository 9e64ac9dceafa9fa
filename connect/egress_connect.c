/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-egress-connect HOST PORT: opens a tunnel through the slot's egress proxy and connects it to
 * standard input and output, for a command whose program cannot use a proxy, above all ssh
 * (ProxyCommand). If the proxy refuses, its answer is one sentence, which goes to standard error.
 *
 * It is untrusted like every command, and nothing relies on it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/wire/protocol.h"

/* A name has at most 253 bytes. The proxy refuses longer names, but the length is limited here. */
#define HOST_LEN_MAX 255
/* The proxy's answer: some hundred bytes, or a sentence. */
#define ANSWER_MAX 8192
#define PIECE      65536
/* What a pipe that poll() reports as writable takes without blocking. */
#define PIPE_PIECE 4096

static int
fail(const char *what)
{
	fprintf(stderr, "koda-egress-connect: %s: %s\n", what, strerror(errno));
	return 1;
}

static int
usage(FILE *to)
{
	fprintf(to,
	    "usage: koda-egress-connect HOST PORT\n"
	    "Connects standard input and output to HOST:PORT through the sandbox's proxy. For ssh:\n"
	    "  ssh -o ProxyCommand='koda-egress-connect %%h %%p' ...\n");
	return to == stdout ? 0 : 2;
}

/* The name becomes part of an HTTP request: nothing in it may end a line or a word. */
static bool
is_one_word(const char *host)
{
	size_t len = strlen(host);

	for (size_t i = 0; i < len; i++)
		if (host[i] <= ' ' || host[i] == 0x7f)
			return false;
	return len > 0 && len <= HOST_LEN_MAX;
}

static int
connect_to_proxy(void)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons(EGRESS_PORT),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -1;
	return take_fd(&fd);
}

static int
send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
ask(int fd, const char *host, const char *port)
{
	const bool bare6 = strchr(host, ':') != NULL && host[0] != '[';
	char head[2 * HOST_LEN_MAX + 128];
	int len = snprintf(head, sizeof(head),
	    "CONNECT %1$s%3$s%2$s:%4$s HTTP/1.1\r\nHost: %1$s%3$s%2$s:%4$s\r\n\r\n",
	    bare6 ? "[" : "", bare6 ? "]" : "", host, port);

	return send_all(fd, head, (size_t)len);
}

struct answer {
	char text[ANSWER_MAX + 1];
	size_t len;
	size_t head; /* its length, including the empty line; 0: incomplete */
};

/* Returns 1; 0 at the end of the stream; -1 with errno. */
static int
read_more(int fd, struct answer *a)
{
	ssize_t n;

	if (a->len == ANSWER_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	do {
		n = recv(fd, a->text + a->len, ANSWER_MAX - a->len, 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return (int)n;
	a->len += (size_t)n;
	a->text[a->len] = '\0';
	return 1;
}

static int
read_head(int fd, struct answer *a)
{
	while (a->head == 0) {
		const char *end;
		int r = read_more(fd, a);

		if (r == 0)
			errno = ECONNRESET;
		if (r <= 0)
			return -1;
		end = strstr(a->text, "\r\n\r\n");
		if (end != NULL)
			a->head = (size_t)(end - a->text) + strlen("\r\n\r\n");
	}
	return 0;
}

/* Returns the status of "HTTP/1.1 200 ...", or 0 if that is not an answer. */
static long
status_of(const struct answer *a)
{
	if (strncmp(a->text, "HTTP/1.", strlen("HTTP/1.")) != 0 || a->text[8] != ' ')
		return 0;
	return strtol(a->text + 9, NULL, 10);
}

/* The sentence is the body, one line. It is printed to a terminal and may come from a host that
 * commands can reach, so control characters are left out. */
static int
refused(int fd, struct answer *a, long status)
{
	while (strchr(a->text + a->head, '\n') == NULL && read_more(fd, a) > 0)
		;
	if (a->len == a->head)
		fprintf(stderr, "koda-egress-connect: the proxy answered with status %ld", status);
	for (const char *p = a->text + a->head; *p != '\0' && *p != '\n'; p++)
		if ((unsigned char)*p >= ' ' && *p != 0x7f)
			fputc(*p, stderr);
	fputc('\n', stderr);
	return 1;
}

/* ---- relay ---- */

/* One direction. The data to be passed on is between start and end. */
struct flow {
	int from, to;
	char data[PIECE];
	size_t start, end;
	bool done; /* at its end, and all data is passed on */
};

static void
finish(struct flow *f)
{
	f->done = true;
	f->start = f->end = 0;
	/* The other direction continues: a socket is only half closed. */
	if (shutdown(f->to, SHUT_WR) < 0 && errno == ENOTSOCK)
		close(f->to);
}

static void
pass_on(struct flow *f)
{
	size_t len = f->end - f->start;
	ssize_t n = send(f->to, f->data + f->start, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	/* Descriptors that other processes share stay blocking: the change would affect those
	 * processes. */
	if (n < 0 && errno == ENOTSOCK)
		n = write(f->to, f->data + f->start, len < PIPE_PIECE ? len : PIPE_PIECE);
	if (n >= 0)
		f->start += (size_t)n;
	else if (errno != EAGAIN && errno != EINTR)
		finish(f);
}

static void
take_more(struct flow *f)
{
	ssize_t n = read(f->from, f->data, sizeof(f->data));

	if (n > 0) {
		f->start = 0;
		f->end = (size_t)n;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		finish(f);
	}
}

static int
relay(struct flow *up, struct flow *down)
{
	struct flow *const flow[2] = { up, down };

	while (!up->done || !down->done) {
		struct pollfd fds[3] = { [2] = { down->done ? down->from : -1, 0, 0 } };

		for (int i = 0; i < 2; i++) {
			const bool full = flow[i]->start < flow[i]->end;

			fds[i] = (struct pollfd){ flow[i]->done ? -1
				    : full                      ? flow[i]->to
								: flow[i]->from,
				full ? POLLOUT : POLLIN, 0 };
		}
		if (poll(fds, N_ELEMENTS(fds), -1) < 0 && errno != EINTR)
			return fail("poll");
		/* Reset: the other end is gone, so what standard input may still deliver has no
		 * reader. */
		if (fds[2].revents != 0)
			return 0;
		for (int i = 0; i < 2; i++) {
			if (fds[i].revents == 0)
				continue;
			if (flow[i]->start < flow[i]->end)
				pass_on(flow[i]);
			else
				take_more(flow[i]);
		}
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static struct answer answer;
	static struct flow up, down;
	char *end;
	long status;
	int fd;

	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return usage(stdout);
	if (argc != 3 || !is_one_word(argv[1]) || strtoul(argv[2], &end, 10) - 1 >= 65535 ||
	    *end != '\0' || strspn(argv[2], "0123456789") != strlen(argv[2]))
		return usage(stderr);
	signal(SIGPIPE, SIG_IGN);
	fd = connect_to_proxy();
	if (fd < 0)
		return fail("connect to the sandbox's proxy");
	if (ask(fd, argv[1], argv[2]) < 0 || read_head(fd, &answer) < 0)
		return fail("read the proxy's answer");
	status = status_of(&answer);
	if (status < 200 || status > 299)
		return refused(fd, &answer, status);
	up.from = STDIN_FILENO;
	up.to = down.from = fd;
	down.to = STDOUT_FILENO;
	down.end = answer.len - answer.head;
	memcpy(down.data, answer.text + answer.head, down.end);
	return relay(&up, &down);
}
