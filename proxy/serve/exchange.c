/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/exchange.h"

#include <string.h>

#include "proxy/proxy.h"
#include "shared/base/cleanup.h"

/* Servers' heads are longer than clients' (content security policies, many cookies). */
#define ANSWER_HEAD_MAX (24 * 1024)
/* How much of a body is discarded to keep a connection after a refusal; above, a new connection
 * is cheaper. */
#define DISCARD_MAX 65536

/* ---- the request ---- */

static bool
method_is(const struct exchange *x, const char *method)
{
	size_t n = strlen(method);

	return x->head.method.n == n && memcmp(x->head.method.p, method, n) == 0;
}

enum exchange_result
exchange_take_head(struct exchange *x, struct side *client, const char **ret_why)
{
	struct stream_buffer *in = &client->in;
	size_t n = buffer_filled(in);

	x->client_close = true;
	x->up_over = true;
	x->is_head = x->expects = x->answered = false;
	switch (
	    n == 0 ? HTTP_INCOMPLETE : http_request_parse(buffer_first(in), n, &x->head, ret_why)) {
	case HTTP_INCOMPLETE:
		return n >= PROXY_HEAD_MAX ? EXCHANGE_TOO_LARGE : EXCHANGE_WAITS;
	case HTTP_BAD:
		return EXCHANGE_BAD_REQUEST;
	case HTTP_OK:
		break;
	}
	if (x->head.len > PROXY_HEAD_MAX)
		return EXCHANGE_TOO_LARGE;
	x->held = true;
	x->is_head = method_is(x, "HEAD");
	x->client_close = !x->head.keep_alive;
	x->expects = x->head.expect_continue;
	body_init(&x->up, &x->head);
	x->up_over = body_over(&x->up);
	x->up_chunked = x->head.body == HTTP_BODY_CHUNKED;
	x->down_over = false;
	x->upgrades = false;
	return EXCHANGE_MOVED;
}

void
exchange_drop_head(struct exchange *x, struct side *client)
{
	if (!x->held)
		return;
	buffer_skip(&client->in, x->head.len);
	x->held = false;
}

bool
exchange_send_head(struct exchange *x, struct side *server, const struct rewrite_request *target)
{
	struct rewrite_request r = *target;
	struct stream_buffer *b = &server->out;
	size_t size = buffer_room(b, false);

	r.head = &x->head;
	r.close = x->client_close;
	buffer_put_written(b, rewrite_request(&r, b->p + b->end, size));
	x->upgrades = rewrite_upgrades(&r);
	x->by_proxy = r.via != NULL;
	x->came = false;
	/* The buffer holds the longest client head and the added fields: this only fails when
	 * memory is short. */
	return !b->full;
}

enum exchange_result
exchange_send_body(struct exchange *x, struct side *client, struct side *server,
    const char **ret_why)
{
	struct stream_buffer *in = &client->in;
	const char *content = NULL;
	size_t n, taken = 0, len = 0;

	if (x->up_over)
		return EXCHANGE_WAITS;
	exchange_drop_head(x, client);
	n = buffer_filled(in);
	if (n == 0)
		return client->ended ? EXCHANGE_CUT : EXCHANGE_WAITS;
	if (server != NULL) {
		size_t most = buffer_content_room(&server->out);

		n = n < most ? n : most;
		if (n == 0)
			return EXCHANGE_WAITS;
	}
	if (body_take(&x->up, buffer_first(in), n, &taken, &content, &len, ret_why) == HTTP_BAD) {
		x->client_close = true;
		x->up_over = true;
		return EXCHANGE_BAD_REQUEST;
	}
	if (server != NULL)
		buffer_put_content(&server->out, content, len, x->up_chunked);
	buffer_skip(in, taken);
	if (body_over(&x->up)) {
		x->up_over = true;
		if (server != NULL)
			buffer_put_end(&server->out, x->up_chunked);
	}
	return taken > 0 || x->up_over ? EXCHANGE_MOVED : EXCHANGE_WAITS;
}

bool
exchange_can_repeat(const struct exchange *x)
{
	static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE" };

	if (x->came || !x->held || !x->up_over)
		return false;
	for (size_t i = 0; i < N_ELEMENTS(methods); i++) {
		if (method_is(x, methods[i]))
			return true;
	}
	return false;
}

bool
exchange_rest_is_small(const struct exchange *x)
{
	if (x->up_over)
		return true;
	/* A client that expects 100-continue may or may not send its body, and a chunked body
	 * has no known size. */
	return !x->expects && x->up.kind == HTTP_BODY_LENGTH && x->up.left <= DISCARD_MAX;
}

/* ---- the answer ---- */

static enum exchange_result
pass_informational(struct exchange *x, struct side *client, struct side *server,
    const struct http_head *h)
{
	struct stream_buffer *b = &client->out;

	if (x->head.minor >= 1) {
		size_t size = buffer_room(b, false);

		buffer_put_written(b,
		    rewrite_informational(h, buffer_first(&server->in), b->p + b->end, size));
	}
	buffer_skip(&server->in, h->len);
	return EXCHANGE_MOVED;
}

static enum exchange_result
pass_switch(struct exchange *x, struct side *client, struct side *server, const struct http_head *h,
    const char **ret_why)
{
	struct stream_buffer *b = &client->out;
	size_t size = buffer_room(b, false);

	if (!x->upgrades) {
		*ret_why = "the server changed the protocol, which the client did not ask for";
		return EXCHANGE_BAD_ANSWER;
	}
	if (!rewrite_may_switch(h)) {
		*ret_why = "the server changed to a protocol that is not allowed";
		return EXCHANGE_BAD_ANSWER;
	}
	buffer_put_written(b, rewrite_switch(h, buffer_first(&server->in), b->p + b->end, size));
	if (b->full)
		return EXCHANGE_CUT;
	buffer_skip(&server->in, h->len);
	exchange_drop_head(x, client);
	x->answered = true;
	return EXCHANGE_SWITCHED;
}

static enum exchange_result
pass_final(struct exchange *x, struct side *client, struct side *server, const struct http_head *h)
{
	struct rewrite_answer a = {
		.head = h,
		.bytes = buffer_first(&server->in),
		.to_head = x->is_head,
		.client_minor = x->head.minor,
	};
	struct stream_buffer *b = &client->out;
	enum http_body kind = rewrite_framing(h, x->head.minor);
	size_t size = buffer_room(b, false);

	x->server_close = !h->keep_alive || h->body == HTTP_BODY_CLOSE;
	/* The answer came before the end of the request: the client may or may not send the
	 * rest. */
	x->client_close |= !x->up_over || (x->one_server && x->server_close);
	x->client_close |= kind == HTTP_BODY_CLOSE;
	x->down_chunked = kind == HTTP_BODY_CHUNKED;
	a.close = x->client_close;
	buffer_put_written(b, rewrite_answer(&a, b->p + b->end, size));
	body_init(&x->down, h);
	x->down_over = body_over(&x->down);
	if (x->down_over)
		buffer_put_end(b, x->down_chunked);
	buffer_skip(&server->in, h->len);
	exchange_drop_head(x, client);
	x->answered = true;
	return b->full ? EXCHANGE_CUT : EXCHANGE_MOVED;
}

static enum exchange_result
no_answer(const struct exchange *x, const char **ret_why)
{
	*ret_why = x->came ? "the server's answer broke off"
			   : "the server closed the connection without an answer";
	return EXCHANGE_NO_ANSWER;
}

enum exchange_result
exchange_pass_head(struct exchange *x, struct side *client, struct side *server,
    const char **ret_why)
{
	static const char too_large[] = "the head of the server's answer is too large";
	struct stream_buffer *in = &server->in;
	size_t n = buffer_filled(in);
	struct http_head h;

	if (buffer_filled(&client->out) > 0)
		return EXCHANGE_WAITS;
	if (n == 0)
		return server->ended ? no_answer(x, ret_why) : EXCHANGE_WAITS;
	x->came = true;
	switch (http_response_parse(buffer_first(in), n, x->is_head, false, &h, ret_why)) {
	case HTTP_INCOMPLETE:
		if (n >= ANSWER_HEAD_MAX) {
			*ret_why = too_large;
			return EXCHANGE_BAD_ANSWER;
		}
		return server->ended ? no_answer(x, ret_why) : EXCHANGE_WAITS;
	case HTTP_BAD:
		return EXCHANGE_BAD_ANSWER;
	case HTTP_OK:
		break;
	}
	if (h.len > ANSWER_HEAD_MAX) {
		*ret_why = too_large;
		return EXCHANGE_BAD_ANSWER;
	}
	if (h.status == 101)
		return pass_switch(x, client, server, &h, ret_why);
	if (h.status < 200)
		return pass_informational(x, client, server, &h);
	if (h.status == 407 && x->by_proxy) {
		*ret_why = "the user's own proxy does not accept its credentials";
		return EXCHANGE_BAD_ANSWER;
	}
	return pass_final(x, client, server, &h);
}

enum exchange_result
exchange_pass_body(struct exchange *x, struct side *client, struct side *server,
    const char **ret_why)
{
	struct stream_buffer *in = &server->in, *out = &client->out;
	const char *content = NULL;
	size_t n, most, taken = 0, len = 0;

	if (x->down_over)
		return EXCHANGE_WAITS;
	n = buffer_filled(in);
	if (n == 0) {
		if (!server->ended)
			return EXCHANGE_WAITS;
		if (server->broken || !body_end(&x->down)) {
			*ret_why = "the server's answer broke off";
			return EXCHANGE_BAD_ANSWER;
		}
		if (buffer_content_room(out) == 0)
			return EXCHANGE_WAITS;
		x->down_over = true;
		buffer_put_end(out, x->down_chunked);
		return EXCHANGE_MOVED;
	}
	most = buffer_content_room(out);
	n = n < most ? n : most;
	if (n == 0)
		return EXCHANGE_WAITS;
	if (body_take(&x->down, buffer_first(in), n, &taken, &content, &len, ret_why) == HTTP_BAD)
		return EXCHANGE_BAD_ANSWER;
	buffer_put_content(out, content, len, x->down_chunked);
	buffer_skip(in, taken);
	if (body_over(&x->down)) {
		x->down_over = true;
		buffer_put_end(out, x->down_chunked);
	}
	return taken > 0 || x->down_over ? EXCHANGE_MOVED : EXCHANGE_WAITS;
}
