/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp/door.h"
#include "mcp/endpoint_wire.h"
#include "mcp/fault.h"
#include "mcp/tokens.h"
#include "shared/base/clock.h"

/* A client that has connected but not sent its hello. */
struct newcomer {
	int fd; /* -1: free */
	int64_t until;
};

struct endpoint {
	struct door door;
	struct runtime *rt;
	endpoint_child_fn *on_child;
	void *data;
	struct tokens tokens;
	struct newcomer pending[ENDPOINT_PENDING_MAX];
	uint64_t refusals;
};

_Static_assert(ENDPOINT_PENDING_MAX <= DOOR_GUESTS_MAX, "the door has room for all");

void
endpoint_end(int control, uint8_t status, const char *sentence)
{
	char packet[1 + ENDPOINT_SENTENCE_MAX];
	size_t n = sentence != NULL ? strnlen(sentence, ENDPOINT_SENTENCE_MAX) : 0;

	packet[0] = (char)status;
	if (n > 0)
		memcpy(packet + 1, sentence, n);
	/* If the program is gone, the packet is lost. */
	(void)!send(control, packet, 1 + n, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(control);
}

static void
refuse(struct endpoint *ep, struct newcomer *p, const char *sentence)
{
	ep->refusals++;
	endpoint_end(p->fd, ENDPOINT_REFUSED, sentence);
	p->fd = -1;
}

/* ---- tokens ---- */

int
endpoint_open(struct endpoint *ep, uint64_t child, char ret[ENDPOINT_TOKEN_SIZE],
    struct koda_error *err)
{
	char secret[TOKEN_SECRET_LEN];

	if (!tokens_make(&ep->tokens, child, boottime_s(), secret))
		return fault_set(err, KODA_TOO_LARGE, 0,
		    "%d children were opened and have not connected; wait for them, or close some",
		    TOKENS_MAX);
	snprintf(ret, ENDPOINT_TOKEN_SIZE, "%s.%.*s", runtime_name(ep->rt), TOKEN_SECRET_LEN,
	    secret);
	return 0;
}

bool
endpoint_give_back(struct endpoint *ep, uint64_t child)
{
	return tokens_give_back(&ep->tokens, child, boottime_s());
}

void
endpoint_revoke(struct endpoint *ep, uint64_t child)
{
	tokens_revoke(&ep->tokens, child);
}

/* ---- connecting clients ---- */

struct hello {
	char text[ENDPOINT_HELLO_LEN];
	int fds[ENDPOINT_FDS];
};

static void
close_fds(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Receives the hello: one packet of exactly the right length, with exactly two descriptors.
 * Returns 1, 0 if nothing has come, or -1 for anything else, whose descriptors are closed. */
static int
receive(int fd, struct hello *ret)
{
	/* Room for one descriptor too many, so that it is noticed; the kernel closes any beyond
	 * that. */
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE((ENDPOINT_FDS + 1) * sizeof(int))];
	} control;
	struct iovec bytes = { ret->text, sizeof(ret->text) };
	struct msghdr msg = { .msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* Less than the buffer: its alignment padding would hold one more descriptor. */
		.msg_controllen = CMSG_LEN((ENDPOINT_FDS + 1) * sizeof(int)) };
	int got[ENDPOINT_FDS + 1];
	size_t n_got = 0;
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		size_t more = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < more && n_got < ENDPOINT_FDS + 1; i++, n_got++)
			memcpy(&got[n_got], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
	if (n == (ssize_t)sizeof(ret->text) && n_got == ENDPOINT_FDS &&
	    (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
		memcpy(ret->fds, got, sizeof(ret->fds));
		return 1;
	}
	close_fds(got, n_got);
	return -1;
}

/* Returns whether fd was opened for this mode; an O_PATH descriptor is for neither. */
static bool
is_open_for(int fd, int mode)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_PATH) == 0 &&
	    ((flags & O_ACCMODE) == mode || (flags & O_ACCMODE) == O_RDWR);
}

static void
hear(struct endpoint *ep, struct newcomer *p)
{
	static const size_t at = sizeof(ENDPOINT_HELLO) - 1;
	struct hello hello;
	uint64_t child = 0;
	int control, r = receive(p->fd, &hello);

	if (r == 0)
		return;
	if (r < 0) {
		refuse(ep, p, "the server needs a token and two descriptors");
		return;
	}
	if (memcmp(hello.text, ENDPOINT_HELLO, at) != 0 ||
	    memcmp(hello.text + at, runtime_name(ep->rt), RUNTIME_NAME_LEN) != 0 ||
	    hello.text[at + RUNTIME_NAME_LEN] != '.' || !is_open_for(hello.fds[0], O_RDONLY) ||
	    !is_open_for(hello.fds[1], O_WRONLY)) {
		close_fds(hello.fds, ENDPOINT_FDS);
		refuse(ep, p, "the server needs a token, one descriptor to read and one to write");
		return;
	}
	if (!tokens_redeem(&ep->tokens, hello.text + at + RUNTIME_NAME_LEN + 1, boottime_s(),
		&child)) {
		close_fds(hello.fds, ENDPOINT_FDS);
		refuse(ep, p,
		    "the server does not expect this token: a token can be used once, for five minutes, while the parent keeps the child open");
		return;
	}
	/* From here on the callee watches it. */
	control = p->fd;
	p->fd = -1;
	door_forget(&ep->door, control);
	ep->on_child(ep->data, child, hello.fds[0], hello.fds[1], control);
}

static void
set_timer(struct endpoint *ep)
{
	int64_t first = 0;

	for (size_t i = 0; i < ENDPOINT_PENDING_MAX; i++) {
		const struct newcomer *p = &ep->pending[i];

		if (p->fd >= 0 && (first == 0 || p->until < first))
			first = p->until;
	}
	door_wake_at(&ep->door, first);
}

static void
on_timer(struct endpoint *ep)
{
	int64_t now = boottime_s();

	for (size_t i = 0; i < ENDPOINT_PENDING_MAX; i++) {
		struct newcomer *p = &ep->pending[i];

		if (p->fd >= 0 && p->until <= now)
			refuse(ep, p, "the server received no token in time");
	}
	door_timer(&ep->door);
}

static void
take_connection(struct endpoint *ep)
{
	int fd = door_accept(&ep->door);
	struct newcomer *p = NULL;

	if (fd < 0)
		return;
	if (!runtime_peer_is_us(fd)) {
		ep->refusals++;
		close(fd);
		return;
	}
	for (size_t i = 0; i < ENDPOINT_PENDING_MAX && p == NULL; i++)
		p = ep->pending[i].fd < 0 ? &ep->pending[i] : NULL;
	if (p == NULL) {
		ep->refusals++;
		endpoint_end(fd, ENDPOINT_REFUSED,
		    "the server has too many clients that have not sent a token yet");
		return;
	}
	*p = (struct newcomer){ .fd = fd, .until = boottime_s() + ENDPOINT_HELLO_SECONDS };
	if (door_watch(&ep->door, fd, EPOLLIN, (unsigned)(p - ep->pending)) < 0)
		refuse(ep, p, "the server cannot serve another client");
}

void
endpoint_dispatch(struct endpoint *ep)
{
	unsigned events[DOOR_EVENTS_MAX];
	const size_t n = door_events(&ep->door, events);

	for (size_t i = 0; i < n; i++) {
		const unsigned what = events[i];

		if (what == DOOR_LISTENER)
			take_connection(ep);
		else if (what == DOOR_TIMER)
			on_timer(ep);
		else if (ep->pending[what].fd >= 0)
			hear(ep, &ep->pending[what]);
	}
	set_timer(ep);
}

/* ---- creation and end ---- */

struct endpoint *
endpoint_new(struct runtime *rt, endpoint_child_fn *on_child, void *data, struct koda_error *err)
{
	struct endpoint *ep = calloc(1, sizeof(*ep));

	if (ep == NULL) {
		fault_set(err, KODA_INTERNAL, ENOMEM, "endpoint");
		return NULL;
	}
	ep->rt = rt;
	ep->on_child = on_child;
	ep->data = data;
	for (size_t i = 0; i < ENDPOINT_PENDING_MAX; i++)
		ep->pending[i].fd = -1;
	if (door_open(&ep->door, rt, RUNTIME_CHILD, SOCK_SEQPACKET, err) < 0) {
		endpoint_free(ep);
		return NULL;
	}
	return ep;
}

void
endpoint_free(struct endpoint *ep)
{
	if (ep == NULL)
		return;
	for (size_t i = 0; i < ENDPOINT_PENDING_MAX; i++) {
		if (ep->pending[i].fd >= 0)
			close(ep->pending[i].fd);
	}
	door_done(&ep->door);
	explicit_bzero(&ep->tokens, sizeof(ep->tokens));
	free(ep);
}

int
endpoint_fd(const struct endpoint *ep)
{
	return ep->door.poll;
}

uint64_t
endpoint_refusals(const struct endpoint *ep)
{
	return ep->refusals;
}
