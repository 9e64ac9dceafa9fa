/*
 * A length-prefixed stream over a connected AF_UNIX socket, with descriptors. Frames are a 4-byte
 * big-endian length and that many bytes. Knows no message type.
 *
 * Both directions are buffered: many frames that arrived together are one recvmsg, many that are
 * queued are one sendmsg. A descriptor travels with the first byte of its frame and stands in a
 * queue until the receiver, who knows from the message that there is one, takes it; one that nobody
 * takes is found by frame_fds_waiting().
 *
 * Never raises SIGPIPE. Never changes the socket's blocking mode: that is chosen call by call.
 */
#ifndef KODA_SHARED_WIRE_FRAME_H
#define KODA_SHARED_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

#define FRAME_MAX (1u << 20) /* the most one side can make the other allocate */
/* Descriptors that may wait; a peer that sends more is in error. The largest number that goes with one message (three)
 * twice: those of a frame that is not all here yet, and those of the next one, which came with the rest of it. */
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

/* Is fd what a helper is started with: a connected AF_UNIX stream socket? */
bool frame_is_connected(int fd);

/* Takes ownership of fd. */
void frame_init(struct frame_stream *fs, int fd);
/* Closes everything, waiting descriptors too. */
void frame_done(struct frame_stream *fs);

/*
 * The next complete frame that is already here. Returns 1 with *ret pointing into fs, valid until the
 * next call of frame_fill or frame_done; 0 if there is none yet; -1 with *err set (KODA_PROTOCOL) on a
 * length above FRAME_MAX or zero. After -1 the stream is out of step and must be given up.
 */
int frame_next(struct frame_stream *fs, const uint8_t **ret, size_t *ret_len,
    struct koda_error *err);

/*
 * Read once what the socket has. block false: MSG_DONTWAIT. Returns 1 when something came, 0 when
 * nothing is there (or SO_RCVTIMEO ran out, or a signal came), and -1 with *err set: KODA_IO with errnum 0 on end of
 * stream between frames, KODA_PROTOCOL on end of stream inside a frame or too many descriptors.
 */
int frame_fill(struct frame_stream *fs, bool block, struct koda_error *err);

/* Make room for a frame of len bytes and return where its payload goes, NULL with *err set when it is
 * too large (KODA_TOO_LARGE) or memory is short. It is queued at once: fill it before the next call. */
uint8_t *frame_reserve(struct frame_stream *fs, size_t len, struct koda_error *err);

/* Bytes queued and not sent. */
size_t frame_pending(const struct frame_stream *fs);

/* Send what is queued. block false: what the socket takes. Returns 1 when all is out, 0 when some is
 * left, -1 with *err set. */
int frame_flush(struct frame_stream *fs, bool block, struct koda_error *err);

/* Flush what is queued before, then send the last `len` bytes queued (a whole frame) together with
 * send_fd, which stays the caller's. Blocks, waiting at most timeout_ms (-1: no limit) for room. */
int frame_flush_with_fd(struct frame_stream *fs, size_t len, int send_fd, int timeout_ms,
    struct koda_error *err);
/* The same with n of them, at most FRAME_FDS_MAX, which arrive in this order. */
int frame_flush_with_fds(struct frame_stream *fs, size_t len, const int *send_fds, size_t n,
    int timeout_ms, struct koda_error *err);

size_t frame_fds_waiting(const struct frame_stream *fs);
/* The oldest waiting descriptor, the caller's from now on; -1 if there is none. */
int frame_take_fd(struct frame_stream *fs);

#endif
