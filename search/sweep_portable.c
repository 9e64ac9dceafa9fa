/* SPDX-License-Identifier: Apache-2.0 */
/* See sweep.h: for processors that sweep_x86.c does not support. */
#include "search/sweep.h"

#include <string.h>

static bool
has(const char *p, const struct sweep_pair *pair, int k)
{
	return ((uint8_t)p[pair->at[k]] | pair->fold[k]) == pair->byte[k];
}

size_t
sweep_find(const char *text, size_t n, const struct sweep_pair *pair, sweep_is_fn *is,
    const void *data)
{
	for (size_t i = 0; i < n; i++) {
		if (pair->fold[0] == 0) {
			/* libc's memchr is the fastest. */
			const char *p = memchr(text + i + pair->at[0], pair->byte[0], n - i);

			if (p == NULL)
				return n;
			i = (size_t)(p - text) - pair->at[0];
		}
		if (has(text + i, pair, 0) && has(text + i, pair, 1) && is(data, text + i))
			return i;
	}
	return n;
}

size_t
sweep_count(const char *text, size_t len, char byte)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == byte;
	return n;
}

size_t
sweep_ascii(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && ((uint8_t)text[i] & 0x80) == 0)
		i++;
	return i;
}

struct sweep_seen
sweep_look(const char *text, size_t len)
{
	uint8_t all = 0;

	/* No exit from the loop, so that a compiler can vectorise it. */
	for (size_t i = 0; i < len; i++)
		all |= (uint8_t)text[i];
	return (struct sweep_seen){ .nul = len > 0 && memchr(text, 0, len) != NULL,
		.high = (all & 0x80) != 0 };
}
