/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/rewrite.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/cleanup.h"

struct written {
	char *p;
	size_t n, size;
	bool full; /* a put did not fit */
};

static void
put(struct written *w, const char *bytes, size_t n)
{
	if (w->full || n > w->size - w->n) {
		w->full = true;
		return;
	}
	if (n > 0)
		memcpy(w->p + w->n, bytes, n);
	w->n += n;
}

static void
put_string(struct written *w, const char *s)
{
	put(w, s, strlen(s));
}

static void
put_text(struct written *w, struct http_text t)
{
	put(w, t.p, t.n);
}

static void
put_number(struct written *w, unsigned long long v)
{
	char text[24];

	put(w, text, (size_t)snprintf(text, sizeof(text), "%llu", v));
}

static size_t
length_of(const struct written *w)
{
	return w->full ? 0 : w->n;
}

/* h2c would carry requests that are not judged; TLS, a server name that is not checked. */
static bool
may_become(struct http_text protocol)
{
	static const char *const never[] = { "h2c", "h2", "tls" };
	const char *slash = memchr(protocol.p, '/', protocol.n);
	struct http_text name = { protocol.p,
		slash != NULL ? (size_t)(slash - protocol.p) : protocol.n };

	for (size_t i = 0; i < N_ELEMENTS(never); i++) {
		if (http_text_is(name, never[i]))
			return false;
	}
	return name.n > 0;
}

/* Count the permitted protocols of all Upgrade fields; write them to w if it is not NULL. */
static size_t
put_upgrade(struct written *w, const struct http_head *h)
{
	const struct http_field *field;
	size_t found = 0;

	for (size_t i = 0; (field = http_field(h, "upgrade", i)) != NULL; i++) {
		const char *p = field->value.p, *end = p + field->value.n;

		while (p < end) {
			const char *comma = memchr(p, ',', (size_t)(end - p));
			struct http_text t = { p, (size_t)((comma != NULL ? comma : end) - p) };

			p = comma != NULL ? comma + 1 : end;
			while (t.n > 0 && (t.p[0] == ' ' || t.p[0] == '\t')) {
				t.p++;
				t.n--;
			}
			while (t.n > 0 && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
				t.n--;
			if (!may_become(t))
				continue;
			if (w != NULL) {
				put_string(w,
				    found > 0 ? ", " : "Connection: Upgrade\r\nUpgrade: ");
				put_text(w, t);
			}
			found++;
		}
	}
	if (w != NULL && found > 0)
		put_string(w, "\r\n");
	return found;
}

static void
put_host(struct written *w, const struct rewrite_request *r, bool tls)
{
	put_string(w, r->host);
	if (r->port != (tls ? 443u : 80u)) {
		put_string(w, ":");
		put_number(w, r->port);
	}
}

static void
put_credentials(struct written *w, const struct upstream_proxy *via)
{
	char both[sizeof(via->user) + sizeof(via->password)];
	char text[sodium_base64_ENCODED_LEN(sizeof(both), sodium_base64_VARIANT_ORIGINAL)];
	int n = snprintf(both, sizeof(both), "%s:%s", via->user, via->password);

	put_string(w, "Proxy-Authorization: Basic ");
	put_string(w,
	    sodium_bin2base64(text, sizeof(text), (const unsigned char *)both, (size_t)n,
		sodium_base64_VARIANT_ORIGINAL));
	put_string(w, "\r\n");
	sodium_memzero(both, sizeof(both));
	sodium_memzero(text, sizeof(text));
}

/* Write the end-to-end fields, without those that the proxy writes itself. keep_length: Content-Length
 * is passed on, since it only announces a length. */
static void
put_fields(struct written *w, const struct http_head *h, bool keep_length)
{
	static const char *const own[] = { "host", "transfer-encoding", "upgrade",
		"http2-settings" };

	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http_field *field = &h->field[i];
		bool skip = http_is_hop(h, field) ||
		    (http_text_is(field->name, "content-length") && !keep_length);

		for (size_t k = 0; k < N_ELEMENTS(own); k++)
			skip |= http_text_is(field->name, own[k]);
		if (skip)
			continue;
		put_text(w, field->name);
		put_string(w, ": ");
		put_text(w, field->value);
		put_string(w, "\r\n");
	}
}

static void
put_framing(struct written *w, enum http_body kind, uint64_t length)
{
	if (kind == HTTP_BODY_CHUNKED) {
		put_string(w, "Transfer-Encoding: chunked\r\n");
	} else if (kind == HTTP_BODY_LENGTH) {
		put_string(w, "Content-Length: ");
		put_number(w, length);
		put_string(w, "\r\n");
	}
}

/* Write the status line in our version, with the server's own reason. */
static void
put_status(struct written *w, const struct http_head *h, const char *bytes)
{
	const char *text = bytes + strlen("HTTP/1.x ");
	const char *end = memchr(text, '\r', (size_t)(bytes + h->len - text));

	put_string(w, "HTTP/1.1 ");
	put(w, text, (size_t)(end - text));
	put_string(w, "\r\n");
}

bool
rewrite_upgrades(const struct rewrite_request *r)
{
	const struct http_head *h = r->head;
	bool has_body =
	    h->body != HTTP_BODY_NONE && !(h->body == HTTP_BODY_LENGTH && h->length == 0);

	/* Not through the user's proxy: a proxy that does not understand 101 passes on the target's
	 * 101, and then takes the bytes that follow for our requests, to any host. In a tunnel
	 * (CONNECT) that cannot happen. */
	return h->upgrade && h->minor >= 1 && !has_body && r->via == NULL &&
	    put_upgrade(NULL, h) > 0;
}

size_t
rewrite_request(const struct rewrite_request *r, char *buf, size_t size)
{
	struct written w = { .p = buf, .size = size };
	const struct http_head *h = r->head;

	put_text(&w, h->method);
	put_string(&w, " ");
	if (r->via != NULL) {
		put_string(&w, "http://");
		put_host(&w, r, false);
	}
	/* To a proxy, "*" is the absolute form without a path. */
	if (r->via == NULL || h->path.n != 1 || h->path.p[0] != '*')
		put_text(&w, h->path);
	put_string(&w, " HTTP/1.1\r\nHost: ");
	put_host(&w, r, r->tls);
	put_string(&w, "\r\n");
	if (r->via != NULL && r->via->has_credentials)
		put_credentials(&w, r->via);
	put_fields(&w, h, false);
	put_framing(&w, h->body, h->length);
	if (rewrite_upgrades(r))
		put_upgrade(&w, h);
	else if (r->close)
		put_string(&w, "Connection: close\r\n");
	put_string(&w, "\r\n");
	return length_of(&w);
}

enum http_body
rewrite_framing(const struct http_head *answer, unsigned client_minor)
{
	enum http_body kind = answer->body;

	if (kind == HTTP_BODY_CLOSE)
		kind = HTTP_BODY_CHUNKED;
	return kind == HTTP_BODY_CHUNKED && client_minor == 0 ? HTTP_BODY_CLOSE : kind;
}

size_t
rewrite_answer(const struct rewrite_answer *a, char *buf, size_t size)
{
	struct written w = { .p = buf, .size = size };
	const struct http_head *h = a->head;

	put_status(&w, h, a->bytes);
	put_fields(&w, h, (a->to_head || h->status == 304) && h->body == HTTP_BODY_NONE);
	put_framing(&w, rewrite_framing(h, a->client_minor), h->length);
	if (a->close)
		put_string(&w, "Connection: close\r\n");
	else if (a->client_minor == 0)
		put_string(&w, "Connection: keep-alive\r\n");
	put_string(&w, "\r\n");
	return length_of(&w);
}

size_t
rewrite_informational(const struct http_head *h, const char *bytes, char *buf, size_t size)
{
	struct written w = { .p = buf, .size = size };

	put_status(&w, h, bytes);
	put_fields(&w, h, false);
	put_string(&w, "\r\n");
	return length_of(&w);
}

bool
rewrite_may_switch(const struct http_head *h)
{
	return put_upgrade(NULL, h) > 0;
}

size_t
rewrite_switch(const struct http_head *h, const char *bytes, char *buf, size_t size)
{
	struct written w = { .p = buf, .size = size };

	put_status(&w, h, bytes);
	put_fields(&w, h, false);
	put_upgrade(&w, h);
	put_string(&w, "\r\n");
	return length_of(&w);
}

size_t
rewrite_chunk(const char *content, size_t n, char *buf, size_t size)
{
	struct written w = { .p = buf, .size = size };
	char text[20];

	put(&w, text, (size_t)snprintf(text, sizeof(text), "%zx\r\n", n));
	put(&w, content, n);
	put_string(&w, "\r\n");
	return length_of(&w);
}
