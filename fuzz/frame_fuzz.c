/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes, in any chunks, through a real socket. The frames that come out are compared with those
 * of a reader that has all of the bytes at once. First byte of the input: how to cut the rest.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "shared/wire/frame.h"

#define INPUT_MAX (96u << 10) /* what a socket takes before it is read */

/* Read the next frame in the obvious way. Returns 1, 0 (more is needed), or -1 (not a frame). */
static int
frame_plainly(const uint8_t *data, size_t size, size_t *at, const uint8_t **ret, size_t *ret_len)
{
	size_t len;

	if (size - *at < 4)
		return 0;
	len = (size_t)data[*at] << 24 | (size_t)data[*at + 1] << 16 | (size_t)data[*at + 2] << 8 |
	    data[*at + 3];
	if (len == 0 || len > FRAME_MAX)
		return -1;
	if (size - *at - 4 < len)
		return 0;
	*ret = data + *at + 4;
	*ret_len = len;
	*at += 4 + len;
	return 1;
}

/* Take all complete frames. Returns 0, or -1 if the stream is out of step, which the plain reader
 * must report too. */
static int
take_frames(struct frame_stream *fs, const uint8_t *data, size_t arrived, size_t *at)
{
	for (;;) {
		const uint8_t *got = NULL, *want = NULL;
		size_t got_len = 0, want_len = 0;
		struct koda_error err;
		int r = frame_next(fs, &got, &got_len, &err);

		must(r == frame_plainly(data, arrived, at, &want, &want_len));
		if (r < 0)
			must(err.code == KODA_PROTOCOL && err.message[0] != '\0');
		if (r <= 0)
			return r;
		must(got_len == want_len && memcmp(got, want, got_len) == 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_stream fs;
	struct koda_error err;
	size_t sent = 0, at = 0;
	int pair[2], r = 0;
	uint8_t cut;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	cut = data[0];
	data++;
	size--;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	frame_init(&fs, pair[0]);
	while (sent < size && r == 0) {
		size_t n = cut == 0 ? size : 1 + (cut * (sent + 1)) % 251;

		if (n > size - sent)
			n = size - sent;
		must(send(pair[1], data + sent, n, MSG_NOSIGNAL) == (ssize_t)n);
		sent += n;
		do {
			r = frame_fill(&fs, false, &err);
			must(r >= 0);
		} while (r > 0);
		must(frame_fds_waiting(&fs) == 0);
		r = take_frames(&fs, data, sent, &at);
	}
	shutdown(pair[1], SHUT_WR);
	if (r == 0) {
		must(frame_fill(&fs, true, &err) == -1);
		must(err.code == (at == size ? KODA_IO : KODA_PROTOCOL));
	}
	frame_done(&fs);
	close(pair[1]);
	return 0;
}
