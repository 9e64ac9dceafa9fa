/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/wire/frame.c: frames over real socket pairs, cut, joined and sent with descriptors in
 * every way.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/wire/frame.h"
#include "tests/kit/cases.h"

struct pair {
	int peer; /* written and read raw */
	struct frame_stream fs;
};

static int
set_up(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	int fds[2];

	if (p == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -1;
	p->peer = fds[0];
	frame_init(&p->fs, fds[1]);
	*state = p;
	return 0;
}

static int
tear_down(void **state)
{
	struct pair *p = *state;

	if (p->peer >= 0)
		close(p->peer);
	frame_done(&p->fs);
	assert_int_equal(p->fs.fd, -1);
	free(p);
	return 0;
}

static void
push(struct pair *p, const void *data, size_t len)
{
	assert_int_equal(send(p->peer, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void
push_with_fds(struct pair *p, const void *data, size_t len, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(16 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	assert_int_equal(sendmsg(p->peer, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

static void
expect_frame(struct pair *p, const char *want)
{
	struct koda_error err;
	const uint8_t *data;
	size_t len;

	assert_int_equal(frame_next(&p->fs, &data, &len, &err), 1);
	assert_int_equal(len, strlen(want));
	assert_memory_equal(data, want, len);
}

static void
expect_none(struct pair *p)
{
	const uint8_t *data;
	size_t len;

	assert_int_equal(frame_next(&p->fs, &data, &len, NULL), 0);
}

static void
byte_by_byte(void **state)
{
	static const char wire[] = "\0\0\0\5hello\0\0\0\1x";
	struct pair *p = *state;
	struct koda_error err;

	for (size_t i = 0; i < 14; i++) {
		expect_none(p);
		push(p, wire + i, 1);
		assert_int_equal(frame_fill(&p->fs, false, &err), 1);
		if (i == 8)
			expect_frame(p, "hello");
	}
	expect_frame(p, "x");
	expect_none(p);
	assert_int_equal(frame_fill(&p->fs, false, &err), 0);
}

static void
many_at_once(void **state)
{
	struct pair *p = *state;
	struct koda_error err;

	push(p, "\0\0\0\1a\0\0\0\2bc\0\0\0\3def\0\0\0\4gh", 24);
	assert_int_equal(frame_fill(&p->fs, false, &err), 1);
	expect_frame(p, "a");
	expect_frame(p, "bc");
	expect_frame(p, "def");
	expect_none(p);
	push(p, "ij", 2);
	assert_int_equal(frame_fill(&p->fs, true, &err), 1);
	expect_frame(p, "ghij");
}

static const struct {
	const char *label;
	uint8_t header[4];
} bad_lengths[] = {
	{ "nothing", { 0, 0, 0, 0 } },
	{ "one too many", { 0, 0x10, 0, 1 } },
	{ "2 GiB", { 0x80, 0, 0, 0 } },
	{ "all ones", { 0xff, 0xff, 0xff, 0xff } },
};

static void
bad_length(void **state)
{
	struct pair p;
	void *pp = &p;
	size_t i = (uintptr_t)*state;
	struct koda_error err;
	const uint8_t *data;
	size_t len;

	assert_int_equal(set_up(&pp), 0);
	push(pp, bad_lengths[i].header, 4);
	assert_int_equal(frame_fill(&((struct pair *)pp)->fs, false, &err), 1);
	assert_int_equal(frame_next(&((struct pair *)pp)->fs, &data, &len, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
	/* Refused before anything is allocated for it. */
	assert_true(((struct pair *)pp)->fs.in_size <= 4096);
	tear_down(&pp);
}

/* The announced length of a frame is not allocated before its bytes arrive. */
static void
promises_cost_nothing(void **state)
{
	struct pair *p = *state;
	struct koda_error err;

	push(p, "\0\x10\0\0start", 9);
	assert_int_equal(frame_fill(&p->fs, false, &err), 1);
	expect_none(p);
	assert_int_equal(frame_fill(&p->fs, false, &err), 0);
	assert_true(p->fs.in_size <= 4096);
}

static void
largest(void **state)
{
	struct pair *p = *state;
	uint8_t *big = malloc(FRAME_MAX + 4);
	struct koda_error err;
	const uint8_t *data;
	size_t len, sent = 0;
	int r;

	assert_non_null(big);
	memset(big, 'b', FRAME_MAX + 4);
	memcpy(big, "\0\x10\0\0", 4);
	for (int i = 0; i < 2; i++) {
		for (sent = 0; (r = frame_next(&p->fs, &data, &len, &err)) == 0;) {
			ssize_t n = send(p->peer, big + sent, FRAME_MAX + 4 - sent,
			    MSG_DONTWAIT | MSG_NOSIGNAL);

			sent += n > 0 ? (size_t)n : 0;
			assert_true(frame_fill(&p->fs, false, &err) >= 0);
		}
		assert_int_equal(r, 1);
		assert_int_equal(len, FRAME_MAX);
		assert_int_equal(data[0], 'b');
		assert_int_equal(data[FRAME_MAX - 1], 'b');
	}
	assert_true(p->fs.in_size <= FRAME_MAX + 4);
	/* An idle stream does not keep a megabyte. */
	assert_int_equal(frame_fill(&p->fs, false, &err), 0);
	assert_true(p->fs.in_size <= 256u << 10);
	free(big);
}

static void
end_between(void **state)
{
	struct pair *p = *state;
	struct koda_error err;

	push(p, "\0\0\0\1a", 5);
	close(take_fd(&p->peer));
	assert_int_equal(frame_fill(&p->fs, false, &err), 1);
	expect_frame(p, "a");
	assert_int_equal(frame_fill(&p->fs, false, &err), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, 0);
	assert_true(p->fs.eof);
}

static void
end_inside(void **state)
{
	struct pair *p = *state;
	struct koda_error err;

	push(p, "\0\0\0\7abc", 7);
	close(take_fd(&p->peer));
	assert_int_equal(frame_fill(&p->fs, false, &err), 1);
	expect_none(p);
	assert_int_equal(frame_fill(&p->fs, false, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
}

/* A peer that closes with our bytes unread resets the connection; what it sent before still
 * arrives. */
static void
reset(void **state)
{
	struct pair *p = *state;
	struct koda_error err;
	uint8_t *to = frame_reserve(&p->fs, 4, &err);

	assert_non_null(to);
	memcpy(to, "ping", 4);
	assert_int_equal(frame_flush(&p->fs, false, &err), 1);
	push(p, "\0\0\0\1a", 5);
	close(take_fd(&p->peer));
	assert_int_equal(frame_fill(&p->fs, false, &err), 1);
	expect_frame(p, "a");
	assert_int_equal(frame_fill(&p->fs, false, &err), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, 0);
	/* Sending to it is an error, never SIGPIPE. */
	assert_non_null(frame_reserve(&p->fs, 4, &err));
	assert_int_equal(frame_flush(&p->fs, true, &err), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, EPIPE);
	assert_int_equal(frame_flush_with_fd(&p->fs, 8, 0, 1000, &err), -1);
}

static void
waits_no_longer_than_told(void **state)
{
	struct pair *p = *state;
	const struct timeval tick = { .tv_usec = 20000 };
	struct koda_error err;

	assert_int_equal(setsockopt(p->fs.fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick)), 0);
	assert_int_equal(frame_fill(&p->fs, true, &err), 0);
	assert_false(p->fs.eof);
}

static void
descriptors_in_order(void **state)
{
	struct pair *p = *state;
	struct koda_error err;
	struct stat st[3], got;
	int fds[3], fd;

	fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fds[1] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	fds[2] = open("/", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fstat(fds[i], &st[i]), 0);
	push(p, "\0\0\0\1-", 5);
	push_with_fds(p, "\0\0\0\1a", 5, fds, 1);
	push_with_fds(p, "\0\0\0\1b", 5, fds + 1, 2);
	while (frame_fds_waiting(&p->fs) < 3)
		assert_int_equal(frame_fill(&p->fs, false, &err), 1);
	for (int i = 0; i < 3; i++) {
		fd = frame_take_fd(&p->fs);
		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		assert_int_equal(fstat(fd, &got), 0);
		assert_true(got.st_rdev == st[i].st_rdev && got.st_ino == st[i].st_ino);
		close(fd);
		close(fds[i]);
	}
	assert_int_equal(frame_take_fd(&p->fs), -1);
	expect_frame(p, "-");
	expect_frame(p, "a");
	expect_frame(p, "b");
}

static int
lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void
too_many_descriptors(void **state)
{
	struct pair *p = *state;
	struct koda_error err;
	int fds[10], first = lowest_free();

	for (int i = 0; i < 10; i++)
		fds[i] = p->peer;
	push_with_fds(p, "\0\0\0\1a", 5, fds, 10);
	assert_int_equal(frame_fill(&p->fs, false, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
	frame_done(&p->fs);
	/* No descriptor leaks: the lowest number was the stream's own or is free again. */
	assert_true(lowest_free() <= first);
}

static void
too_many_one_by_one(void **state)
{
	struct pair *p = *state;
	struct koda_error err;
	int r = 1;

	for (int i = 0; i < FRAME_FDS_MAX + 1; i++)
		push_with_fds(p, "\0\0\0\1a", 5, &p->peer, 1);
	for (int i = 0; i < FRAME_FDS_MAX + 1 && r > 0; i++)
		r = frame_fill(&p->fs, false, &err);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
	assert_int_equal(frame_fds_waiting(&p->fs), FRAME_FDS_MAX);
}

/* If this process has no room for a descriptor, this is not the peer's fault, and it is
 * reported. */
static void
starved(void **state)
{
	struct pair *p = *state;
	struct rlimit old, low;
	struct koda_error err;
	int r;

	/* valgrind has descriptors of its own and another limit. */
	if (getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), "vgpreload") != NULL)
		return;
	push_with_fds(p, "\0\0\0\1a", 5, &p->peer, 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)lowest_free();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	r = frame_fill(&p->fs, false, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, KODA_INTERNAL);
	assert_int_equal(err.errnum, EMFILE);
}

static void
queue(struct pair *p, int c, size_t len)
{
	struct koda_error err;
	uint8_t *to = frame_reserve(&p->fs, len, &err);

	assert_non_null(to);
	memset(to, c, len);
}

static void
refuses_to_send(void **state)
{
	struct pair *p = *state;
	struct koda_error err;

	assert_null(frame_reserve(&p->fs, 0, &err));
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_null(frame_reserve(&p->fs, FRAME_MAX + 1, &err));
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_int_equal(frame_pending(&p->fs), 0);
	assert_non_null(frame_reserve(&p->fs, FRAME_MAX, &err));
	assert_int_equal(frame_pending(&p->fs), FRAME_MAX + 4);
}

/* The receiver takes less than is queued: the rest stays, in order, and sent bytes free their
 * room although the queue is never empty. */
static void
half_sent(void **state)
{
	struct pair *p = *state;
	struct frame_stream other;
	const uint8_t *data;
	struct koda_error err;
	size_t len, largest_out = 0;
	unsigned sent = 0, seen = 0;
	int r;

	frame_init(&other, take_fd(&p->peer));
	for (; sent < 20; sent++)
		queue(p, (int)sent, 60000);
	assert_int_equal(frame_flush(&p->fs, false, &err), 0);
	assert_true(frame_pending(&p->fs) > 0);
	for (; seen < 500; seen++) {
		while ((r = frame_next(&other, &data, &len, &err)) == 0) {
			assert_int_equal(frame_fill(&other, false, &err), 1);
			assert_true(frame_flush(&p->fs, false, &err) >= 0);
		}
		assert_int_equal(r, 1);
		assert_int_equal(len, 60000);
		assert_int_equal(data[0], (uint8_t)seen);
		assert_int_equal(data[len - 1], (uint8_t)seen);
		if (sent < 500)
			queue(p, (int)sent++, 60000);
		if (p->fs.out_size > largest_out)
			largest_out = p->fs.out_size;
	}
	assert_true(largest_out <= 4u << 20);
	frame_done(&other);
}

/* A descriptor arrives with its own frame, also after other frames that filled the socket. */
static void
with_descriptor(void **state)
{
	struct pair *p = *state;
	struct frame_stream other;
	const uint8_t *data;
	struct koda_error err;
	size_t len;
	int frames = 0, r;
	pid_t pid;

	frame_init(&other, take_fd(&p->peer));
	for (int i = 0; i < 20; i++)
		queue(p, 'x', 60000);
	queue(p, 'd', 10);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(frame_flush_with_fd(&p->fs, 14, 0, 10000, &err) == 0 ? 0 : 1);
	for (;;) {
		while ((r = frame_next(&other, &data, &len, &err)) == 0)
			assert_int_equal(frame_fill(&other, true, &err), 1);
		assert_int_equal(r, 1);
		frames++;
		if (data[0] == 'd')
			break;
	}
	assert_int_equal(frames, 21);
	assert_int_equal(frame_fds_waiting(&other), 1);
	assert_int_equal(waitpid(pid, &r, 0), pid);
	assert_int_equal(r, 0);
	frame_done(&other);
}

/* Three descriptors arrive in order and with their frame, not with what was queued before or
 * after it. */
static void
with_descriptors(void **state)
{
	struct pair *p = *state;
	struct frame_stream other;
	const uint8_t *data;
	struct koda_error err;
	struct stat want, got;
	size_t len;
	int fds[FRAME_FDS_MAX];

	frame_init(&other, take_fd(&p->peer));
	for (size_t i = 0; i < N_ELEMENTS(fds); i++) {
		fds[i] = memfd_create("one of them", MFD_CLOEXEC);
		assert_true(fds[i] >= 0);
		assert_int_equal(ftruncate(fds[i], (off_t)i), 0);
	}
	queue(p, 'a', 10);
	queue(p, 'd', 10);
	assert_int_equal(frame_flush_with_fds(&p->fs, 14, fds, 3, 1000, &err), 0);
	queue(p, 'b', 10);
	assert_int_equal(frame_flush(&p->fs, true, &err), 1);
	for (const char *c = "adb"; *c != '\0'; c++) {
		while (frame_next(&other, &data, &len, &err) == 0)
			assert_int_equal(frame_fill(&other, true, &err), 1);
		assert_int_equal(data[0], *c);
		/* They may arrive before the frame that they belong to, and never after it. */
		if (*c == 'd')
			assert_int_equal(frame_fds_waiting(&other), 3);
		if (*c == 'b')
			assert_int_equal(frame_fds_waiting(&other), 0);
		for (size_t i = 0; *c == 'd' && i < 3; i++) {
			int fd = frame_take_fd(&other);

			assert_int_equal(fstat(fd, &got), 0);
			assert_int_equal(fstat(fds[i], &want), 0);
			assert_int_equal(got.st_ino, want.st_ino);
			close(fd);
		}
	}
	/* As many as may wait; not one more, and not zero. */
	queue(p, 'e', 10);
	assert_int_equal(frame_flush_with_fds(&p->fs, 14, fds, 0, 1000, &err), -1);
	assert_int_equal(frame_flush_with_fds(&p->fs, 14, fds, FRAME_FDS_MAX + 1, 1000, &err), -1);
	assert_int_equal(frame_flush_with_fds(&p->fs, 14, fds, FRAME_FDS_MAX, 1000, &err), 0);
	assert_int_equal(frame_fill(&other, true, &err), 1);
	assert_int_equal(frame_fds_waiting(&other), FRAME_FDS_MAX);
	frame_done(&other);
	for (size_t i = 0; i < N_ELEMENTS(fds); i++)
		close(fds[i]);
}

static void
with_descriptor_gives_up(void **state)
{
	struct pair *p = *state;
	struct koda_error err;

	for (int i = 0; i < 20; i++)
		queue(p, 'x', 60000);
	queue(p, 'd', 10);
	assert_int_equal(frame_flush_with_fd(&p->fs, 14, 0, 20, &err), -1);
	assert_int_equal(err.code, KODA_TIMEOUT);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(bad_lengths) + 24];
	size_t n = 0;

	CASES(bad_lengths, bad_length);
#define ADD(fn) tests[n++] = (struct CMUnitTest){ #fn, fn, set_up, tear_down, NULL }
	ADD(byte_by_byte);
	ADD(many_at_once);
	ADD(promises_cost_nothing);
	ADD(largest);
	ADD(end_between);
	ADD(end_inside);
	ADD(reset);
	ADD(waits_no_longer_than_told);
	ADD(descriptors_in_order);
	ADD(too_many_descriptors);
	ADD(too_many_one_by_one);
	ADD(starved);
	ADD(refuses_to_send);
	ADD(half_sent);
	ADD(with_descriptor);
	ADD(with_descriptors);
	ADD(with_descriptor_gives_up);
	return _cmocka_run_group_tests("frame", tests, n, NULL, NULL);
}
