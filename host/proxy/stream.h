/* Bytes to and from one side, plain or through TLS: non-blocking, with the events that it waits for. */
#ifndef KODA_PROXY_STREAM_H
#define KODA_PROXY_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ssl_st;

struct stream {
	int fd;
	struct ssl_st *ssl;           /* NULL: plain */
	bool wants_read, wants_write; /* what the last call that could not go on waits for */
	bool
	    eof; /* the other side has ended, as it should (TLS: close_notify, or the socket's end) */
};

void stream_init(struct stream *s, int fd, struct ssl_st *ssl);
/* Bytes; 0: none now; -1: ended (eof) or broken. */
ssize_t stream_read(struct stream *s, void *buf, size_t size);
ssize_t stream_write(struct stream *s, const void *buf, size_t n);
/* Are there bytes that no event will tell of? */
bool stream_pending(const struct stream *s);
/* No more from us. */
void stream_shut(struct stream *s);
void stream_done(struct stream *s);

#endif
