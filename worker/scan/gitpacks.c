/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/gitpacks.h"

#include <string.h>

#define HEADER    12
#define ROW       12 /* a chunk's id and where it begins; one row more says where the last one ends */
#define CHUNKS_AT 6
#define PACKS_AT  8
#define NAMES     "PNAM"

static uint64_t
get_number(const uint8_t *p, size_t bytes)
{
	uint64_t ret = 0;

	while (bytes-- > 0)
		ret = ret << 8 | *p++;
	return ret;
}

int
gitpacks_find(const uint8_t *head, size_t len, uint64_t *ret_at, uint64_t *ret_len, uint32_t *ret_n)
{
	bool found = false;
	size_t chunks;

	if (len < HEADER || memcmp(head, "MIDX", 4) != 0)
		return -1;
	chunks = head[CHUNKS_AT];
	if (len < HEADER + (chunks + 1) * ROW)
		return -1;
	for (size_t i = 0; i < chunks; i++) {
		const uint8_t *row = head + HEADER + i * ROW;
		const uint64_t at = get_number(row + 4, 8), end = get_number(row + ROW + 4, 8);

		if (memcmp(row, NAMES, 4) != 0)
			continue;
		/* Versions of git differ in which of two they read. */
		if (found || end < at)
			return -1;
		found = true;
		*ret_at = at;
		*ret_len = end - at;
	}
	*ret_n = (uint32_t)get_number(head + PACKS_AT, 4);
	return found ? 0 : -1;
}

bool
gitpacks_are_plain(const char *names, size_t len, uint32_t n)
{
	if (memchr(names, '/', len) != NULL)
		return false;
	/* Old versions of git read names beyond the chunk if it has too few. */
	for (; n > 0; n--) {
		const char *nul = memchr(names, '\0', len);

		if (nul == NULL || nul == names || names[0] == '.')
			return false;
		len -= (size_t)(nul + 1 - names);
		names = nul + 1;
	}
	return true;
}
