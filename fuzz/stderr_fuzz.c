/* SPDX-License-Identifier: Apache-2.0 */
/* What a command printed is never read beyond its end; what is found is part of its text, and a
 * second pass finds the same. */
#include "fuzz/fuzz.h"
#include "host/command/stderr_parse.h"

struct seen {
	size_t n, lines;
};

static void
check(const struct denial *d)
{
	size_t target = strnlen(d->target, sizeof(d->target));
	size_t relative = strnlen(d->relative, sizeof(d->relative));

	must(target < sizeof(d->target) && relative < sizeof(d->relative));
	must(target == 0 || relative == 0);
	must((unsigned)d->kind < KODA_N_VIOLATION_KINDS);
	must(
	    memchr(d->target, '\n', target) == NULL && memchr(d->relative, '\n', relative) == NULL);
	/* A path, or the target in a line about the network. */
	must(target == 0 || d->target[0] == '/' || d->kind == KODA_VIOLATION_NETWORK_OUTBOUND);
	must(relative == 0 || d->relative[0] != '/');
}

static int
on_denial(void *data, const struct denial *d)
{
	struct seen *s = data;

	check(d);
	must(++s->n <= s->lines);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Exactly as long as the input, so that a sanitizer sees a read beyond its end. */
	char *text = calloc(1, size > 0 ? size : 1);
	struct seen s = { .lines = 1 };
	struct denial one, again;

	must(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	for (size_t i = 0; i < size; i++)
		s.lines += text[i] == '\n';
	must(stderr_parse(text, size, on_denial, &s) == 0);
	if (memchr(data, '\n', size) == NULL && stderr_parse_line(text, size, &one)) {
		must(stderr_parse_line(text, size, &again));
		must(one.kind == again.kind && strcmp(one.target, again.target) == 0);
	}
	free(text);
	return 0;
}
