/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/place_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/wire/message.h"

void
place_set_done(struct place_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		koda__place__free_unpacked(set->place[i], NULL);
	free(set->place);
	free(set->bucket);
	free(set->sure);
	*set = (struct place_set){ 0 };
}

/* Returns the bucket of the place with that path, or the free one where it would go. */
static uint32_t *
bucket_of(const struct place_set *set, ProtobufCBinaryData path)
{
	uint32_t h = 2166136261u;
	size_t at;

	for (size_t i = 0; i < path.len; i++)
		h = (h ^ path.data[i]) * 16777619u;
	for (at = (h ^ h >> 15) & (set->n_buckets - 1); set->bucket[at] != 0;
	     at = (at + 1) & (set->n_buckets - 1)) {
		const ProtobufCBinaryData other = set->place[set->bucket[at] - 1]->path;

		if (other.len == path.len && memcmp(other.data, path.data, path.len) == 0)
			break;
	}
	return &set->bucket[at];
}

/* Makes room in the buckets for one more place. */
static int
make_buckets(struct place_set *set, struct koda_error *err)
{
	size_t wanted = set->n_buckets == 0 ? 256 : set->n_buckets;

	while (wanted < 2 * (set->n + 1))
		wanted *= 2;
	if (wanted == set->n_buckets)
		return 0;
	free(set->bucket);
	set->bucket = calloc(wanted, sizeof(*set->bucket));
	set->n_buckets = set->bucket != NULL ? wanted : 0;
	if (set->bucket == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	for (size_t i = 0; i < set->n; i++)
		*bucket_of(set, set->place[i]->path) = (uint32_t)i + 1;
	return 0;
}

/* Makes room in the list for one more place. */
static int
make_room(struct place_set *set, struct koda_error *err)
{
	size_t more = set->size == 0 ? 64 : 2 * set->size;
	Koda__Place **list;
	bool *sure;

	if (set->n < set->size)
		return 0;
	list = realloc(set->place, more * sizeof(*list));
	if (list == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	set->place = list;
	sure = realloc(set->sure, more * sizeof(*sure));
	if (sure == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	set->sure = sure;
	set->size = more;
	return 0;
}

int
place_set_add(struct place_set *set, const Koda__Place *place, bool sure, size_t most,
    struct koda_error *err)
{
	Koda__Place *copy;
	uint32_t *bucket;
	size_t at;

	if (make_buckets(set, err) < 0)
		return -1;
	bucket = bucket_of(set, place->path);
	at = *bucket != 0 ? *bucket - 1 : set->n;
	if (at == set->n && at >= most)
		return 1;
	if (make_room(set, err) < 0)
		return -1;
	copy = (Koda__Place *)message_copy(&place->base, err);
	if (copy == NULL)
		return -1;
	if (at < set->n) /* a newer report of the same place */
		koda__place__free_unpacked(set->place[at], NULL);
	else
		set->n++;
	set->sure[at] = sure;
	set->place[at] = copy;
	*bucket = (uint32_t)at + 1;
	return 0;
}

static void
forget_where(struct place_set *set, const bool *gone, bool gone_is)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++) {
		if (gone[i] == gone_is) {
			koda__place__free_unpacked(set->place[i], NULL);
			continue;
		}
		set->sure[kept] = set->sure[i];
		set->place[kept++] = set->place[i];
	}
	set->n = kept;
	set->n_buckets = 0; /* they are made again by the next place_set_add() */
}

void
place_set_forget(struct place_set *set, const bool *gone)
{
	forget_where(set, gone, true);
}

void
place_set_forget_unsure(struct place_set *set)
{
	forget_where(set, set->sure, false);
}
