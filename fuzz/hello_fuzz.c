/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS hello is never read beyond its end. The result depends neither on what follows nor on
 * how the hello is cut into records (of the size in the first byte). */
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "proxy/accept/hello.h"

static enum hello_result
parse(const uint8_t *p, size_t n, struct tls_hello *ret)
{
	/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
	uint8_t *copy = malloc(n > 0 ? n : 1);
	const char *why = NULL;
	enum hello_result r;

	must(copy != NULL);
	if (n > 0)
		memcpy(copy, p, n);
	r = hello_parse(copy, n, ret, &why);
	must((r != HELLO_BAD && r != HELLO_NOT_TLS) || (why != NULL && why[0] != '\0'));
	free(copy);
	return r;
}

static bool
same(const struct tls_hello *a, const struct tls_hello *b)
{
	return a->has_name == b->has_name && a->encrypted == b->encrypted &&
	    strcmp(a->name, b->name) == 0;
}

/* Join the content of the records that belong to the hello. */
static size_t
join(const uint8_t *p, size_t n, uint8_t *ret)
{
	size_t at = 0, len = 0;

	while (at + 5 <= n) {
		size_t record = (size_t)p[at + 3] << 8 | p[at + 4];

		if (record > n - at - 5)
			record = n - at - 5;
		memcpy(ret + len, p + at + 5, record);
		len += record;
		at += 5 + record;
		if (len >= 4 && len >= 4 + ((size_t)ret[1] << 16 | (size_t)ret[2] << 8 | ret[3]))
			return 4 + ((size_t)ret[1] << 16 | (size_t)ret[2] << 8 | ret[3]);
	}
	must(false);
	return 0;
}

static size_t
split(const uint8_t *message, size_t n, size_t size, uint8_t *ret)
{
	size_t len = 0;

	for (size_t at = 0; at < n; at += size) {
		size_t record = n - at < size ? n - at : size;

		ret[len++] = 22;
		ret[len++] = 3;
		ret[len++] = 1;
		ret[len++] = (uint8_t)(record >> 8);
		ret[len++] = (uint8_t)record;
		memcpy(ret + len, message + at, record);
		len += record;
	}
	return len;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t message[HELLO_MAX], records[7 * HELLO_MAX];
	struct tls_hello h, other;
	enum hello_result r, part;
	size_t n, len;
	uint8_t record;

	if (size < 2 || size > HELLO_MAX + 100)
		return 0;
	record = data[0];
	data++;
	size--;
	r = parse(data, size, &h);
	must(r == HELLO_NOT_TLS ? data[0] != 22 : data[0] == 22);
	must(r != HELLO_INCOMPLETE || size < HELLO_MAX);
	part = parse(data, size / 2, &other);
	must(part == HELLO_INCOMPLETE || part == r);
	must(part != HELLO_OK || same(&h, &other));
	if (r != HELLO_OK)
		return 0;
	if (h.has_name) {
		char name[DOMAIN_HOST_MAX + 1];
		enum domain_kind kind;

		must(domain_host_parse(h.name, strlen(h.name), true, name, &kind) == NULL);
		must(strcmp(name, h.name) == 0);
	} else {
		must(h.name[0] == '\0');
	}
	must(h.len <= size && h.len <= HELLO_MAX);
	must(parse(data, h.len, &other) == HELLO_OK && other.len == h.len && same(&h, &other));
	must(parse(data, h.len - 1, &other) == HELLO_INCOMPLETE);
	n = join(data, h.len, message);
	len = split(message, n, 1 + (size_t)record, records);
	part = parse(records, len, &other);
	must(len > HELLO_MAX ? part == HELLO_BAD : part == HELLO_OK && same(&h, &other));
	if (len <= HELLO_MAX)
		must(parse(records, len - 1, &other) == HELLO_INCOMPLETE);
	return 0;
}
