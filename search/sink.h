/* SPDX-License-Identifier: Apache-2.0 */
/* Sends what was found to the host: collected into pages, which are sent when they are full or
 * old, the first item at once. */
#ifndef KODA_SEARCH_SINK_H
#define KODA_SEARCH_SINK_H

#include "worker/session.h"

#define SINK_ITEMS_MAX 512
/* A page is sent when it has this many bytes: enough to make waking the host cheap. */
#define SINK_BYTES (64u << 10)
/* A page is also sent when its first item has waited this long. */
#define SINK_MS 5

struct sink {
	struct session *ses;
	Koda__FoundItem item[SINK_ITEMS_MAX];
	Koda__FoundItem *list[SINK_ITEMS_MAX];
	size_t n;
	uint8_t *bytes; /* what the items point to, by offset until the page is packed */
	size_t len, size;
	struct sink_ref {
		size_t path, text, span;
	} ref[SINK_ITEMS_MAX];
	int64_t since;  /* ms: when the first item was added */
	bool sent;      /* a page was sent */
	uint32_t place; /* of the last item, as is its path */
	size_t path_at, path_len;
};

void sink_init(struct sink *sink, struct session *ses);
void sink_done(struct sink *sink);

/* Adds an item and copies everything it points to. Returns 0, or -1 with *err set: sending
 * failed, or memory is short. */
int sink_add(struct sink *sink, const Koda__FoundItem *item, struct koda_error *err);
/* Sends the page if its first item has waited long enough. Called now and then during a long
 * stretch without results. */
int sink_tick(struct sink *sink, struct koda_error *err);
int sink_flush(struct sink *sink, struct koda_error *err);

#endif
