/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A length-prefixed stream over a connected AF_UNIX socket, with descriptors. A frame is a 4-byte
 * big-endian length and that many bytes. This layer knows no message types.
 *
 * Both directions are buffered: many frames that arrive together cost one recvmsg, many queued
 * frames cost one sendmsg. A descriptor travels with the first byte of its frame and waits in a
 * queue until the receiver takes it; the receiver knows from the message that there is one.
 * frame_fds_waiting() finds descriptors that were not taken.
 *
 * Never raises SIGPIPE. Never changes the socket's blocking mode: that is chosen per call.
 */
#ifndef KODA_SHARED_WIRE_FRAME_H
#define KODA_SHARED_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

#define FRAME_HEADER 4
#define FRAME_MAX    (1u << 20) /* the most that one side can make the other allocate */
/*
 * Descriptors that may wait; it is an error of the peer to send more. At least twice the largest
 * number that goes with one message (three): those of a frame that is not complete yet, and those
 * of the next frame, which came with the rest of it.
 */
#define FRAME_FDS_MAX 8

struct frame_stream {
	int fd;
	uint8_t *in;
	size_t in_size, in_start, in_end;
	uint8_t *out;
	size_t out_size, out_start, out_end;
	int fds[FRAME_FDS_MAX];
	size_t n_fds;
	bool eof;
};

/*
 * The header of a frame. For frames in memory too, which are not held to FRAME_MAX: the record of
 * what a worker changes, and journals.
 */
static inline void
frame_put_length(uint8_t to[FRAME_HEADER], size_t len)
{
	for (int i = 0; i < FRAME_HEADER; i++)
		to[i] = (uint8_t)(len >> (24 - 8 * i));
}

static inline size_t
frame_get_length(const uint8_t from[FRAME_HEADER])
{
	return (size_t)from[0] << 24 | (size_t)from[1] << 16 | (size_t)from[2] << 8 | from[3];
}

/* Is fd what a helper is started with, a connected AF_UNIX stream socket? */
bool frame_is_connected(int fd);

/* Takes ownership of fd. */
void frame_init(struct frame_stream *fs, int fd);
/* Closes the socket and the waiting descriptors and frees the buffers. */
void frame_done(struct frame_stream *fs);

/*
 * Returns the next complete frame that has been received: 1 with *ret pointing into fs, valid until
 * the next call of frame_fill or frame_done; 0 if there is none yet; -1 with *err set
 * (KODA_PROTOCOL) if the length is zero or above FRAME_MAX. After -1 the stream is out of step and
 * must be given up.
 */
int frame_next(struct frame_stream *fs, const uint8_t **ret, size_t *ret_len,
    struct koda_error *err);

/*
 * Reads from the socket once. With block false it uses MSG_DONTWAIT. Returns 1 if something came; 0
 * if nothing is there, SO_RCVTIMEO ran out or a signal came; -1 with *err set: KODA_IO with errnum
 * 0 on end of stream between frames, KODA_PROTOCOL on end of stream inside a frame or too many
 * descriptors.
 */
int frame_fill(struct frame_stream *fs, bool block, struct koda_error *err);

/*
 * Queues a frame of len bytes and returns the place for its payload, which the caller must fill
 * before the next call. Returns NULL with *err set if the frame is too large (KODA_TOO_LARGE) or
 * memory is short.
 */
uint8_t *frame_reserve(struct frame_stream *fs, size_t len, struct koda_error *err);

/* Number of bytes that are queued and not sent. */
size_t frame_pending(const struct frame_stream *fs);

/*
 * Sends what is queued. With block false it sends only what the socket takes at once. Returns 1 if
 * everything was sent, 0 if some of it is left, -1 with *err set.
 */
int frame_flush(struct frame_stream *fs, bool block, struct koda_error *err);

/*
 * Sends what was queued before the last `len` bytes (a whole frame), then that frame together with
 * send_fd, which stays the caller's. Blocks, but waits at most timeout_ms (-1: no limit) for room.
 * Returns 0, or -1 with *err set.
 */
int frame_flush_with_fd(struct frame_stream *fs, size_t len, int send_fd, int timeout_ms,
    struct koda_error *err);
/* Like frame_flush_with_fd(), with 1 to FRAME_FDS_MAX descriptors, which arrive in this order. */
int frame_flush_with_fds(struct frame_stream *fs, size_t len, const int *send_fds, size_t n,
    int timeout_ms, struct koda_error *err);

size_t frame_fds_waiting(const struct frame_stream *fs);
/* Takes the oldest waiting descriptor, which the caller then owns. Returns -1 if there is none. */
int frame_take_fd(struct frame_stream *fs);

#endif
