/* SPDX-License-Identifier: Apache-2.0 */
/* A body with one of the three framings (first byte), fed in one piece and in pieces (second byte),
 * gives the same content, which a reader of the whole text finds too. */
#include "fuzz/fuzz.h"
#include "proxy/serve/body.h"

struct read {
	enum http_result result;
	size_t taken, n;
	char content[1 << 16];
};

static void
feed(const struct http_head *head, const uint8_t *p, size_t n, size_t piece, struct read *ret)
{
	struct body b;
	const char *run, *why;
	size_t taken, len;

	body_init(&b, head);
	ret->taken = ret->n = 0;
	ret->result = body_over(&b) ? HTTP_OK : HTTP_INCOMPLETE;
	while (ret->taken < n && !body_over(&b)) {
		size_t have = n - ret->taken < piece ? n - ret->taken : piece;
		/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
		char *copy = malloc(have);
		enum http_result r;

		must(copy != NULL);
		memcpy(copy, p + ret->taken, have);
		why = NULL;
		r = body_take(&b, copy, have, &taken, &run, &len, &why);
		if (r == HTTP_BAD) {
			must(why != NULL);
			free(copy);
			ret->result = HTTP_BAD;
			return;
		}
		must(taken > 0 && taken <= have && len <= taken);
		must(run >= copy && run + len <= copy + taken);
		must(r == HTTP_OK || (taken == have && !body_over(&b)));
		memcpy(ret->content + ret->n, run, len);
		ret->n += len;
		ret->taken += taken;
		free(copy);
	}
	ret->result = body_over(&b) ? HTTP_OK : HTTP_INCOMPLETE;
	must(body_over(&b) ? body_end(&b) : body_end(&b) == (head->body == HTTP_BODY_CLOSE));
}

/* Read a complete chunked body with string functions. Returns false if it is not one. */
static bool
whole(const char *p, size_t n, struct read *ret)
{
	const char *at = p, *const end = p + n;

	ret->n = 0;
	for (;;) {
		const char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
		size_t digits = line == NULL ? 0 : (size_t)(line - at);
		char number[17] = "";
		unsigned long long size;

		if (digits == 0 || digits > 16)
			return false;
		memcpy(number, at, digits);
		if (strspn(number, "0123456789abcdefABCDEF") != digits)
			return false;
		size = strtoull(number, NULL, 16);
		at = line + 2;
		if (size == 0)
			break;
		if (size > (size_t)(end - at) || (size_t)(end - at) - size < 2 ||
		    memcmp(at + size, "\r\n", 2) != 0)
			return false;
		memcpy(ret->content + ret->n, at, size);
		ret->n += size;
		at += size + 2;
	}
	ret->taken = (size_t)(at - p);
	if (end - at >= 2 && memcmp(at, "\r\n", 2) == 0) {
		ret->taken += 2;
		return true;
	}
	return memmem(at, (size_t)(end - at), "\r\n\r\n", 4) !=
	    NULL; /* trailers are not checked here */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_head head;
	static struct read once, pieces, reference;

	if (size < 3 || size > sizeof(once.content))
		return 0;
	head.body = data[0] % 3 == 0 ? HTTP_BODY_CHUNKED
	    : data[0] % 3 == 1       ? HTTP_BODY_LENGTH
				     : HTTP_BODY_CLOSE;
	head.length = head.body == HTTP_BODY_LENGTH ? data[0] : 0;
	feed(&head, data + 2, size - 2, size, &once);
	feed(&head, data + 2, size - 2, 1 + data[1] % 32, &pieces);
	must(once.result == pieces.result);
	if (once.result == HTTP_BAD)
		return 0;
	must(once.taken == pieces.taken && once.n == pieces.n &&
	    memcmp(once.content, pieces.content, once.n) == 0);
	if (head.body == HTTP_BODY_CHUNKED && once.result == HTTP_OK) {
		must(whole((const char *)data + 2, size - 2, &reference));
		must(reference.n == once.n && memcmp(reference.content, once.content, once.n) == 0);
		must(reference.taken <= once.taken);
	} else if (head.body == HTTP_BODY_CHUNKED) {
		/* A body that is not complete for our reader is not complete for the other one. */
		must(!whole((const char *)data + 2, size - 2, &reference));
	}
	return 0;
}
