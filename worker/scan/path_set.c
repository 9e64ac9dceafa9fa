/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/path_set.h"

#include <stdlib.h>

uint64_t
path_digest(const char *text)
{
	uint64_t h = 14695981039346656037u;

	/* On a file system that ignores case, the same path may come back spelled differently. */
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)(*text >= 'A' && *text <= 'Z' ? *text | 0x20 : *text)) *
		    1099511628211u;
	return h | 1;
}

static uint64_t *
slot_of(const struct path_set *set, uint64_t value)
{
	size_t i = (size_t)(value ^ value >> 32) & (set->size - 1);

	while (set->slot[i] != 0 && set->slot[i] != value)
		i = (i + 1) & (set->size - 1);
	return &set->slot[i];
}

bool
path_set_has(const struct path_set *set, const char *path)
{
	return set->n > 0 && *slot_of(set, path_digest(path)) != 0;
}

bool
path_set_add(struct path_set *set, const char *path)
{
	const uint64_t value = path_digest(path);
	uint64_t *at;

	if (set->n >= PATH_SET_MAX)
		return false;
	if (2 * (set->n + 1) > set->size) {
		struct path_set more = { .size = set->size == 0 ? 64 : 2 * set->size };

		more.slot = calloc(more.size, sizeof(*more.slot));
		if (more.slot == NULL)
			return false;
		for (size_t i = 0; i < set->size; i++) {
			if (set->slot[i] != 0)
				*slot_of(&more, set->slot[i]) = set->slot[i];
		}
		more.n = set->n;
		free(set->slot);
		*set = more;
	}
	at = slot_of(set, value);
	set->n += *at == 0;
	*at = value;
	return true;
}

void
path_set_done(struct path_set *set)
{
	free(set->slot);
	*set = (struct path_set){ 0 };
}
