#include "host/protect/planted.h"

#include <stdlib.h>
#include <string.h>

void
planted_done(struct planted *p)
{
	free(p->path);
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

bool
planted_add(struct planted *p, const char *path)
{
	const uint64_t sum = sum_of(path);

	if (p->over)
		return true;
	if (++p->taken >= PLANTED_MAX)
		p->over = true;
	for (size_t i = 0; i < p->n && !p->over; i++)
		p->over = p->path[i] == sum;
	if (p->over)
		return true;
	if (p->n == p->size) {
		const size_t more = p->size == 0 ? 16 : 2 * p->size;
		uint64_t *grown = realloc(p->path, more * sizeof(*grown));

		/* Without memory the path cannot be remembered, so the command ends. */
		if (grown == NULL)
			return p->over = true;
		p->path = grown;
		p->size = more;
	}
	p->path[p->n++] = sum;
	return false;
}

unsigned
planted_left(const struct planted *p)
{
	return p->taken < PLANTED_MAX ? PLANTED_MAX - p->taken : 0;
}
