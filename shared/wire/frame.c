/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_START 4096        /* what an idle stream keeps */
#define IN_READ  (64u << 10) /* what a busy stream reads at once */
/* What a stream keeps: a whole reply with inline content, and what comes with it. */
#define IN_KEEP   (2 * IN_READ)
#define OUT_START 4096

bool
frame_is_connected(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(int);
	int domain, type;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_UNIX)
		return false;
	len = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
		return false;
	len = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
}

void
frame_init(struct frame_stream *fs, int fd)
{
	*fs = (struct frame_stream){ .fd = fd };
}

void
frame_done(struct frame_stream *fs)
{
	for (size_t i = 0; i < fs->n_fds; i++)
		close(fs->fds[i]);
	if (fs->fd >= 0)
		close(fs->fd);
	free(fs->in);
	free(fs->out);
	*fs = (struct frame_stream){ .fd = -1 };
}

int
frame_next(struct frame_stream *fs, const uint8_t **ret, size_t *ret_len, struct koda_error *err)
{
	size_t have = fs->in_end - fs->in_start;
	uint32_t len;

	if (have < FRAME_HEADER)
		return 0;
	len = frame_get_length(fs->in + fs->in_start);
	if (len == 0 || len > FRAME_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "frame of %u bytes: the limit is 1 to %u",
		    len, FRAME_MAX);
	if (have - FRAME_HEADER < len)
		return 0;
	*ret = fs->in + fs->in_start + FRAME_HEADER;
	*ret_len = len;
	fs->in_start += FRAME_HEADER + len;
	return 1;
}

/*
 * Makes room for the frame that has begun, or for a large read. The buffer grows with the bytes
 * that have arrived, not with the announced length: a peer that announces a megabyte must send it
 * first.
 */
static int
make_room(struct frame_stream *fs, struct koda_error *err)
{
	size_t have = fs->in_end - fs->in_start;
	size_t want = IN_START;
	uint8_t *in;

	if (have == 0 && fs->in_size > IN_KEEP) {
		free(fs->in);
		fs->in = NULL;
		fs->in_size = 0;
	}
	if (have > 0 && fs->in_start > 0)
		memmove(fs->in, fs->in + fs->in_start, have);
	fs->in_start = 0;
	fs->in_end = have;
	if (have == fs->in_size)
		want = have < IN_READ ? (have == 0 ? IN_START : IN_READ) : have * 2;
	if (want > FRAME_HEADER + FRAME_MAX)
		want = FRAME_HEADER + FRAME_MAX;
	if (fs->in_size >= want)
		return 0;
	in = realloc(fs->in, want);
	if (in == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "receive buffer");
	fs->in = in;
	fs->in_size = want;
	return 0;
}

/* Keeps or closes every descriptor that came: one that is not stored here would leak. */
static int
take_control(struct frame_stream *fs, struct msghdr *msg, struct koda_error *err)
{
	bool cut = (msg->msg_flags & MSG_CTRUNC) != 0, too_many = false;
	size_t came = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		came += n;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (fs->n_fds < FRAME_FDS_MAX) {
				fs->fds[fs->n_fds++] = fd;
			} else {
				close(fd);
				too_many = true;
			}
		}
	}
	/* Truncated although there was room: this process cannot hold more descriptors. */
	if (cut && came < FRAME_FDS_MAX)
		return err_set(err, KODA_INTERNAL, EMFILE, "receive a descriptor");
	if (cut || too_many)
		return err_set(err, KODA_PROTOCOL, 0, "more than %d descriptors at once",
		    FRAME_FDS_MAX);
	return 0;
}

int
frame_fill(struct frame_stream *fs, bool block, struct koda_error *err)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t n;

	if (make_room(fs, err) < 0)
		return -1;
	iov = (struct iovec){ fs->in + fs->in_end, fs->in_size - fs->in_end };
	n = recvmsg(fs->fd, &msg, MSG_CMSG_CLOEXEC | (block ? 0 : MSG_DONTWAIT));
	/*
	 * EINTR does not retry here: SO_RCVTIMEO would start again with each signal, and a caller
	 * that gets signals often enough would never check the clock.
	 */
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/*
	 * A peer that was killed with our bytes unread resets the connection: treat it as the end
	 * too.
	 */
	if (n == 0 || (n < 0 && errno == ECONNRESET)) {
		fs->eof = true;
		if (fs->in_end != fs->in_start)
			return err_set(err, KODA_PROTOCOL, 0, "end of stream within a frame");
		return err_set(err, KODA_IO, 0, "end of stream");
	}
	if (n < 0)
		return err_set(err, KODA_IO, errno, "receive");
	fs->in_end += (size_t)n;
	return take_control(fs, &msg, err) < 0 ? -1 : 1;
}

uint8_t *
frame_reserve(struct frame_stream *fs, size_t len, struct koda_error *err)
{
	size_t need;
	uint8_t *p;

	if (len == 0 || len > FRAME_MAX) {
		err_set(err, KODA_TOO_LARGE, 0, "message of %zu bytes: the limit is %u", len,
		    FRAME_MAX);
		return NULL;
	}
	if (fs->out_start == fs->out_end) {
		fs->out_start = fs->out_end = 0;
		if (fs->out_size > IN_KEEP && FRAME_HEADER + len <= OUT_START) {
			free(fs->out);
			fs->out = NULL;
			fs->out_size = 0;
		}
	}
	need = fs->out_end + FRAME_HEADER + len;
	/* The queue may not run empty for a long time: reuse the room of what was sent. */
	if (need > fs->out_size && fs->out_start > 0) {
		memmove(fs->out, fs->out + fs->out_start, fs->out_end - fs->out_start);
		fs->out_end -= fs->out_start;
		fs->out_start = 0;
		need = fs->out_end + FRAME_HEADER + len;
	}
	if (need > fs->out_size) {
		size_t size = fs->out_size == 0 ? OUT_START : fs->out_size;

		while (size < need)
			size *= 2;
		p = realloc(fs->out, size);
		if (p == NULL) {
			err_set(err, KODA_INTERNAL, ENOMEM, "send buffer");
			return NULL;
		}
		fs->out = p;
		fs->out_size = size;
	}
	p = fs->out + fs->out_end;
	frame_put_length(p, len);
	fs->out_end = need;
	return p + FRAME_HEADER;
}

size_t
frame_pending(const struct frame_stream *fs)
{
	return fs->out_end - fs->out_start;
}

int
frame_flush(struct frame_stream *fs, bool block, struct koda_error *err)
{
	while (fs->out_start < fs->out_end) {
		ssize_t n = send(fs->fd, fs->out + fs->out_start, fs->out_end - fs->out_start,
		    MSG_NOSIGNAL | (block ? 0 : MSG_DONTWAIT));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !block)
			return 0;
		if (n < 0)
			return err_set(err, KODA_IO, errno, "send");
		fs->out_start += (size_t)n;
	}
	return 1;
}

int
frame_flush_with_fds(struct frame_stream *fs, size_t len, const int *send_fds, size_t n_fds,
    int timeout_ms, struct koda_error *err)
{
	size_t whole = fs->out_end;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n_fds * sizeof(int)) };
	struct cmsghdr *c;
	bool sent_fd = false;

	if (n_fds == 0 || n_fds > FRAME_FDS_MAX)
		return err_set(err, KODA_INTERNAL, 0, "%zu descriptors with a frame", n_fds);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), send_fds, n_fds * sizeof(int));

	while (fs->out_start < whole) {
		size_t before = whole - len > fs->out_start ? whole - len - fs->out_start : 0;
		ssize_t n;

		/*
		 * What was queued earlier goes alone, so that the descriptors arrive with their
		 * frame.
		 */
		if (before > 0 || sent_fd) {
			n = send(fs->fd, fs->out + fs->out_start,
			    before > 0 ? before : whole - fs->out_start,
			    MSG_NOSIGNAL | MSG_DONTWAIT);
		} else {
			iov = (struct iovec){ fs->out + fs->out_start, whole - fs->out_start };
			n = sendmsg(fs->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
			sent_fd = n > 0;
		}
		if (n < 0 && errno == EAGAIN) {
			struct pollfd pfd = { .fd = fs->fd, .events = POLLOUT };
			int r = poll(&pfd, 1, timeout_ms);

			if (r == 0)
				return err_set(err, KODA_TIMEOUT, 0, "the peer does not read");
			if (r < 0 && errno != EINTR)
				return err_set(err, KODA_IO, errno, "poll");
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, KODA_IO, errno, "send");
		fs->out_start += (size_t)n;
	}
	return 0;
}

int
frame_flush_with_fd(struct frame_stream *fs, size_t len, int send_fd, int timeout_ms,
    struct koda_error *err)
{
	return frame_flush_with_fds(fs, len, &send_fd, 1, timeout_ms, err);
}

size_t
frame_fds_waiting(const struct frame_stream *fs)
{
	return fs->n_fds;
}

int
frame_take_fd(struct frame_stream *fs)
{
	int fd;

	if (fs->n_fds == 0)
		return -1;
	fd = fs->fds[0];
	memmove(fs->fds, fs->fds + 1, --fs->n_fds * sizeof(fs->fds[0]));
	return fd;
}
