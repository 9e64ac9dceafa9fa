/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to and from one side, plain or through TLS: non-blocking, with the events to wait for.
 * Never raises SIGPIPE. */
#ifndef KODA_PROXY_SERVE_STREAM_H
#define KODA_PROXY_SERVE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ssl_st;
struct ssl_ctx_st;

/* The values of libev's events. */
#define STREAM_READ  1
#define STREAM_WRITE 2

struct stream {
	int fd;
	struct ssl_st *ssl; /* NULL: plain */
	/* The event to wait for after the last read, and the last write, that could not proceed. */
	int read_waits, write_waits;
	/* The other side has ended properly: TLS by close_notify, since anyone on the path can
	 * end the socket; plain by the socket's end. */
	bool eof;
};

/* Initialise a stream. A stream may be copied; from then on only one copy may be used. */
void stream_init(struct stream *s, int fd, struct ssl_st *ssl);
/* Returns the number of bytes; 0: none now; -1: ended (eof) or broken. */
ssize_t stream_read(struct stream *s, void *buf, size_t size);
ssize_t stream_write(struct stream *s, const void *buf, size_t n);
/* End our direction. */
void stream_shut(struct stream *s);
/* Close the descriptor and free the TLS state. */
void stream_done(struct stream *s);
/* Like stream_done(), but reset the connection, so that the other side does not take a truncated
 * stream for a complete one. */
void stream_abort(struct stream *s);

/* Make TLS over fd (which stays the caller's until a stream has it); these bytes were read from
 * it already. NULL: no memory. */
struct ssl_st *stream_tls(struct ssl_ctx_st *ctx, int fd, const void *bytes, size_t n);

#endif
