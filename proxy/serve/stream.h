/* Bytes to and from one side, plain or through TLS: non-blocking, with the events that it waits for. Never raises SIGPIPE. */
#ifndef KODA_PROXY_SERVE_STREAM_H
#define KODA_PROXY_SERVE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ssl_st;
struct ssl_ctx_st;

/* As libev has them. */
#define STREAM_READ  1
#define STREAM_WRITE 2

struct stream {
	int fd;
	struct ssl_st *ssl; /* NULL: plain */
	/* What the last read, and the last write, that could not go on waits for. */
	int read_waits, write_waits;
	/* The other side has ended, as it should: TLS by close_notify, since anybody can end the socket; else by the socket's end. */
	bool eof;
};

/* A stream may be copied; one of the copies is the stream from then on. */
void stream_init(struct stream *s, int fd, struct ssl_st *ssl);
/* Bytes; 0: none now; -1: ended (eof) or broken. */
ssize_t stream_read(struct stream *s, void *buf, size_t size);
ssize_t stream_write(struct stream *s, const void *buf, size_t n);
/* Are there bytes that no event will tell of? */
bool stream_pending(const struct stream *s);
/* No more from us. */
void stream_shut(struct stream *s);
/* Closes the descriptor. */
void stream_done(struct stream *s);
/* The same, so that the other side cannot take it for an end: what was sent was not all. */
void stream_abort(struct stream *s);

/* TLS over fd (which stays the caller's until a stream has it), of which these bytes were read already. NULL: no memory. */
struct ssl_st *stream_tls(struct ssl_ctx_st *ctx, int fd, const void *bytes, size_t n);

#endif
