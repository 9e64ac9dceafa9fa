/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void
append(struct bytes *b, const char *data, size_t len)
{
	if (b->len + len + 1 > b->size) {
		b->size = 2 * (b->len + len + 1);
		b->data = realloc(b->data, b->size);
	}
	assert_non_null(b->data);
	memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void
drain(int *fd, struct bytes *to)
{
	char buf[65536];
	ssize_t n = read(*fd, buf, sizeof(buf));

	if (n > 0) {
		append(to, buf, (size_t)n);
		return;
	}
	close(*fd);
	*fd = -1;
}

void
has(const struct bytes *b, const char *what)
{
	if (strstr(b->data, what) == NULL)
		fail_msg("expected '%s' in: %s", what, b->data);
}

void
has_not(const struct bytes *b, const char *what)
{
	if (strstr(b->data, what) != NULL)
		fail_msg("did not expect '%s' in: %s", what, b->data);
}

void
is(const struct bytes *b, const char *what)
{
	assert_string_equal(b->data, what);
}
