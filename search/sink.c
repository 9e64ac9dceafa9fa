/* SPDX-License-Identifier: Apache-2.0 */
#include "search/sink.h"

#include <errno.h>
#include <stdlib.h>

#include "shared/base/clock.h"

#define NOWHERE SIZE_MAX

/* Coarse, because it is read for each item found. */
static int64_t
now_ms(void)
{
	return (int64_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / NS_PER_MS);
}

void
sink_init(struct sink *sink, struct session *ses)
{
	sink->ses = ses;
	sink->bytes = NULL;
	sink->n = sink->len = sink->size = 0;
	sink->sent = false;
}

void
sink_done(struct sink *sink)
{
	free(sink->bytes);
	sink->bytes = NULL;
}

/* Copies data into the page. Returns its offset, or NOWHERE if memory is short. Aligned for
 * numbers. */
static size_t
keep(struct sink *sink, const void *data, size_t len)
{
	size_t at = (sink->len + 7) & ~(size_t)7;

	if (at + len > sink->size) {
		size_t size = at + len < SINK_BYTES ? 2 * SINK_BYTES : 2 * (at + len);
		uint8_t *bytes = realloc(sink->bytes, size);

		if (bytes == NULL)
			return NOWHERE;
		sink->bytes = bytes;
		sink->size = size;
	}
	if (len > 0)
		memcpy(sink->bytes + at, data, len);
	sink->len = at + len;
	return at;
}

static bool
same_path(const struct sink *sink, const Koda__FoundItem *item)
{
	return sink->n > 0 && sink->place == item->place && sink->path_len == item->path.len &&
	    (item->path.len == 0 ||
		memcmp(sink->bytes + sink->path_at, item->path.data, item->path.len) == 0);
}

int
sink_add(struct sink *sink, const Koda__FoundItem *item, struct koda_error *err)
{
	struct sink_ref *ref = &sink->ref[sink->n];
	Koda__FoundItem *to = &sink->item[sink->n];

	*to = *item;
	*ref = (struct sink_ref){ NOWHERE, NOWHERE, NOWHERE };
	if (same_path(sink, item)) {
		to->has_place = to->has_path = false;
	} else {
		to->has_place = to->has_path = true;
		ref->path = sink->path_at = keep(sink, item->path.data, item->path.len);
		sink->path_len = item->path.len;
		sink->place = item->place;
	}
	if (item->has_text)
		ref->text = keep(sink, item->text.data, item->text.len);
	if (item->n_span > 0)
		ref->span = keep(sink, item->span, item->n_span * sizeof(*item->span));
	if ((to->has_path && ref->path == NOWHERE) || (item->has_text && ref->text == NOWHERE) ||
	    (item->n_span > 0 && ref->span == NOWHERE))
		return err_set(err, KODA_INTERNAL, ENOMEM, "keep the results");
	if (sink->n++ == 0)
		sink->since = now_ms();
	/* The first item is sent at once: the user waits for it. */
	if (!sink->sent || sink->n == SINK_ITEMS_MAX || sink->len >= SINK_BYTES)
		return sink_flush(sink, err);
	return 0;
}

int
sink_tick(struct sink *sink, struct koda_error *err)
{
	return sink->n > 0 && now_ms() - sink->since >= SINK_MS ? sink_flush(sink, err) : 0;
}

int
sink_flush(struct sink *sink, struct koda_error *err)
{
	Koda__Reply rep = KODA__REPLY__INIT;
	Koda__Found found = KODA__FOUND__INIT;

	if (sink->n == 0)
		return 0;
	for (size_t i = 0; i < sink->n; i++) {
		Koda__FoundItem *item = &sink->item[i];

		if (item->has_path)
			item->path.data = sink->bytes + sink->ref[i].path;
		if (item->has_text)
			item->text.data = sink->bytes + sink->ref[i].text;
		if (item->n_span > 0)
			item->span = (uint32_t *)(void *)(sink->bytes + sink->ref[i].span);
		sink->list[i] = item;
	}
	found.item = sink->list;
	found.n_item = sink->n;
	rep.result_case = KODA__REPLY__RESULT_FOUND;
	rep.found = &found;
	sink->n = sink->len = 0;
	sink->sent = true;
	return session_part(sink->ses, &rep, true, err);
}
