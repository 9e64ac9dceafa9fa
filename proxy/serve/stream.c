/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "shared/base/cleanup.h"

/* A BIO for a socket whose first bytes were read already. OpenSSL's socket BIO would also raise
 * SIGPIPE. */
struct stream_wire {
	int fd;
	size_t n, off;
	char bytes[];
};

static int
wire_read(BIO *bio, char *buf, int size)
{
	struct stream_wire *w = BIO_get_data(bio);
	ssize_t r;

	BIO_clear_retry_flags(bio);
	if (w->off < w->n) {
		size_t n = w->n - w->off < (size_t)size ? w->n - w->off : (size_t)size;

		memcpy(buf, w->bytes + w->off, n);
		w->off += n;
		return (int)n;
	}
	r = recv(w->fd, buf, (size_t)size, 0);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	return (int)r;
}

static int
wire_write(BIO *bio, const char *buf, int n)
{
	struct stream_wire *w = BIO_get_data(bio);
	ssize_t r = send(w->fd, buf, (size_t)n, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)r;
}

static long
wire_ctrl(BIO *bio, int command, long number, void *p)
{
	return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int
wire_destroy(BIO *bio)
{
	free(BIO_get_data(bio));
	return 1;
}

static const BIO_METHOD *
wire_method(void)
{
	static BIO_METHOD *method;
	BIO_METHOD *m;

	if (method == NULL &&
	    (m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire")) != NULL) {
		BIO_meth_set_read(m, wire_read);
		BIO_meth_set_write(m, wire_write);
		BIO_meth_set_ctrl(m, wire_ctrl);
		BIO_meth_set_destroy(m, wire_destroy);
		method = m;
	}
	return method;
}

struct ssl_st *
stream_tls(struct ssl_ctx_st *ctx, int fd, const void *bytes, size_t n)
{
	const BIO_METHOD *method = wire_method();
	struct stream_wire *w;
	BIO *bio;
	SSL *ssl;

	if (method == NULL || (w = malloc(sizeof(*w) + n)) == NULL)
		return NULL;
	w->fd = fd;
	w->n = n;
	w->off = 0;
	if (n > 0)
		memcpy(w->bytes, bytes, n);
	if ((bio = BIO_new(method)) == NULL) {
		free(w);
		return NULL;
	}
	BIO_set_data(bio, w);
	BIO_set_init(bio, 1);
	if ((ssl = SSL_new(ctx)) == NULL) {
		BIO_free(bio);
		return NULL;
	}
	SSL_set_bio(ssl, bio, bio);
	/* A write continues with the rest of a buffer, which may have moved. */
	SSL_set_mode(ssl,
	    SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
		SSL_MODE_RELEASE_BUFFERS);
	return ssl;
}

void
stream_init(struct stream *s, int fd, struct ssl_st *ssl)
{
	*s = (struct stream){ .fd = fd,
		.ssl = ssl,
		.read_waits = STREAM_READ,
		.write_waits = STREAM_WRITE };
}

/* Translate the result of SSL_read() and SSL_write(). */
static ssize_t
tls_result(struct stream *s, int r, int *waits)
{
	if (r > 0)
		return r;
	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		*waits = STREAM_READ;
		return 0;
	case SSL_ERROR_WANT_WRITE:
		*waits = STREAM_WRITE;
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		s->eof = true;
		return -1;
	default:
		return -1;
	}
}

ssize_t
stream_read(struct stream *s, void *buf, size_t size)
{
	ssize_t r;

	s->read_waits = STREAM_READ;
	if (s->ssl != NULL) {
		ERR_clear_error();
		return tls_result(s, SSL_read(s->ssl, buf, (int)size), &s->read_waits);
	}
	r = recv(s->fd, buf, size, MSG_DONTWAIT);
	if (r > 0)
		return r;
	if (r == 0) {
		s->eof = true;
		return -1;
	}
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

ssize_t
stream_write(struct stream *s, const void *buf, size_t n)
{
	ssize_t r;

	s->write_waits = STREAM_WRITE;
	if (s->ssl != NULL) {
		ERR_clear_error();
		return tls_result(s, SSL_write(s->ssl, buf, (int)n), &s->write_waits);
	}
	r = send(s->fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r >= 0)
		return r;
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

void
stream_shut(struct stream *s)
{
	/* No retry is needed: everything before was sent, so the socket has room. */
	if (s->ssl != NULL && SSL_is_init_finished(s->ssl)) {
		ERR_clear_error();
		SSL_shutdown(s->ssl);
	}
	shutdown(s->fd, SHUT_WR);
}

void
stream_done(struct stream *s)
{
	if (s->ssl != NULL)
		SSL_free(s->ssl);
	if (s->fd >= 0)
		close(s->fd);
	stream_init(s, -1, NULL);
}

void
stream_abort(struct stream *s)
{
	struct linger l = { .l_onoff = 1, .l_linger = 0 };

	if (s->fd >= 0)
		setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	stream_done(s);
}
