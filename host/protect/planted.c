/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/planted.h"

#include <stdlib.h>
#include <string.h>

void
planted_done(struct planted *p)
{
	free(p->at);
	*p = (struct planted){ 0 };
}

/* FNV-1a. A command that finds two paths with the same checksum only ends itself. */
static uint64_t
sum_of(const char *path)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *path != '\0'; path++)
		h = (h ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
	return h;
}

static struct planted_at *
find(const struct planted *p, uint64_t sum)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->at[i].path == sum)
			return &p->at[i];
	return NULL;
}

bool
planted_add(struct planted *p, const char *path, size_t neighbours)
{
	const uint64_t sum = sum_of(path);
	struct planted_at *at;

	if (p->over)
		return true;
	if (++p->taken >= PLANTED_MAX)
		return p->over = true;
	at = find(p, sum);
	if (at != NULL) {
		if (at->neighbours < neighbours)
			at->neighbours = neighbours;
		return p->over = ++at->times > 1 + at->neighbours * PLANTED_BY_NEIGHBOUR;
	}
	if (p->n == p->size) {
		const size_t more = p->size == 0 ? 16 : 2 * p->size;
		struct planted_at *grown = realloc(p->at, more * sizeof(*grown));

		/* Without memory the path cannot be remembered, so the command ends. */
		if (grown == NULL)
			return p->over = true;
		p->at = grown;
		p->size = more;
	}
	p->at[p->n++] = (struct planted_at){ sum, 1, neighbours };
	return false;
}

unsigned
planted_left(const struct planted *p)
{
	return p->taken < PLANTED_MAX ? PLANTED_MAX - p->taken : 0;
}
