/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request or a response (the first byte says which) is never read beyond its end.
 * The result does not depend on what follows; a head is incomplete until its last byte; and a
 * parsed head that is written out again is parsed the same. */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "proxy/accept/http.h"

static enum http_result
parse(unsigned how, const void *p, size_t n, struct http_head *ret, const char **why)
{
	/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
	char *copy = malloc(n > 0 ? n : 1);
	enum http_result r;

	must(copy != NULL);
	if (n > 0)
		memcpy(copy, p, n);
	*why = NULL;
	r = how & 1 ? http_response_parse(copy, n, how & 2, how & 4, ret, why)
		    : http_request_parse(copy, n, ret, why);
	must(r != HTTP_BAD || (*why != NULL && (*why)[0] != '\0'));
	/* After this, pointers into it are only compared by length. */
	free(copy);
	return r;
}

static bool
same(const struct http_head *a, const struct http_head *b)
{
	return a->len == b->len && a->minor == b->minor && a->n_fields == b->n_fields &&
	    a->body == b->body && a->length == b->length && a->keep_alive == b->keep_alive &&
	    a->upgrade == b->upgrade && a->expect_continue == b->expect_continue &&
	    a->form == b->form && strcmp(a->host, b->host) == 0 && a->host_kind == b->host_kind &&
	    a->port == b->port && a->has_host_field == b->has_host_field &&
	    a->host_differs == b->host_differs && a->status == b->status &&
	    a->method.n == b->method.n && a->target.n == b->target.n && a->path.n == b->path.n;
}

static void
check_text(struct http_text t, const char *from, size_t len)
{
	must(t.n == 0 || (t.p >= from && t.p + t.n <= from + len));
	for (size_t i = 0; i < t.n; i++)
		must(t.p[i] != '\r' && t.p[i] != '\n' && t.p[i] != '\0');
}

static void
check_head(const struct http_head *h, const char *from, size_t n)
{
	char host[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind;

	must(h->len >= 4 && h->len <= n && memcmp(from + h->len - 4, "\r\n\r\n", 4) == 0);
	must(h->minor <= 1 && h->n_fields <= HTTP_FIELDS_MAX && h->length <= INT64_MAX);
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->field[i];

		check_text(f->name, from, h->len);
		check_text(f->value, from, h->len);
		must(f->name.n > 0);
		for (size_t k = 0; k < f->name.n; k++)
			must(f->name.p[k] > ' ' && f->name.p[k] != ':');
		http_is_hop(h, f);
	}
	must(http_field(h, "host", 1) == NULL || h->status != 0);
	must(http_field(h, "content-length", 1) == NULL);
	must(http_field(h, "content-length", 0) == NULL ||
	    http_field(h, "transfer-encoding", 0) == NULL);
	if (h->host[0] != '\0') {
		must(domain_host_parse(h->host, strlen(h->host), true, host, &kind) == NULL);
		must(strcmp(host, h->host) == 0 && kind == h->host_kind);
	}
	must(h->port <= 65535);
	if (h->status == 0 && h->form != HTTP_FORM_ORIGIN && h->form != HTTP_FORM_ASTERISK)
		must(h->host[0] != '\0' && h->port > 0);
}

/* A head with exactly the parsed fields has the same framing. */
static void
check_again(unsigned how, const struct http_head *h)
{
	static struct http_head again;
	char *text = malloc(2 * h->len + 64);
	const char *why;
	size_t n = 0;

	must(text != NULL);
	if (how & 1)
		n += (size_t)sprintf(text, "HTTP/1.%u %u \r\n", h->minor, h->status);
	else
		n += (size_t)sprintf(text, "%.*s %.*s HTTP/1.%u\r\n", (int)h->method.n, h->method.p,
		    (int)h->target.n, h->target.p, h->minor);
	for (size_t i = 0; i < h->n_fields; i++)
		n += (size_t)sprintf(text + n, "%.*s:%.*s\r\n", (int)h->field[i].name.n,
		    h->field[i].name.p, (int)h->field[i].value.n, h->field[i].value.p);
	n += (size_t)sprintf(text + n, "\r\n");
	must(parse(how, text, n, &again, &why) == HTTP_OK);
	again.len = h->len;
	must(same(h, &again));
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_head h, other;
	const char *why, *text = (const char *)data + 1;
	enum http_result r, part;
	unsigned how;
	size_t n;

	if (size < 2 || size > 20000)
		return 0;
	how = data[0];
	n = size - 1;
	r = how & 1 ? http_response_parse(text, n, how & 2, how & 4, &h, &why)
		    : http_request_parse(text, n, &h, &why);
	part = parse(how, text, n / 2, &other, &why);
	if (part == HTTP_BAD)
		must(r == HTTP_BAD);
	if (part == HTTP_OK)
		must(r == HTTP_OK && same(&h, &other));
	if (r != HTTP_OK)
		return 0;
	check_head(&h, text, n);
	must(parse(how, text, h.len, &other, &why) == HTTP_OK && same(&h, &other));
	must(parse(how, text, h.len - 1, &other, &why) == HTTP_INCOMPLETE);
	check_again(how, &h);
	return 0;
}
