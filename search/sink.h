/* What was found, on its way to the host: collected into pages, which leave when they are full, or old, or the first. */
#ifndef KODA_SEARCH_SINK_H
#define KODA_SEARCH_SINK_H

#include "worker/session.h"

#define SINK_ITEMS_MAX 512
/* A page leaves when it has so many bytes: enough to make waking the host cheap. */
#define SINK_BYTES (64u << 10)
/* Or when its first item has waited so long. */
#define SINK_MS 5

struct sink {
	struct session *ses;
	Koda__FoundItem item[SINK_ITEMS_MAX];
	Koda__FoundItem *list[SINK_ITEMS_MAX];
	size_t n;
	uint8_t *bytes; /* what the items point to; addresses are settled when it is packed */
	size_t len, size;
	struct sink_ref {
		size_t path, text, span;
	} ref[SINK_ITEMS_MAX];
	int64_t since;  /* ms, of the first item */
	bool sent;      /* a page has left */
	uint32_t place; /* of the last item, and its path */
	size_t path_at, path_len;
};

void sink_init(struct sink *sink, struct session *ses);
void sink_done(struct sink *sink);

/* Copies all that the item points to. -1 with *err set: nobody takes it, or memory is short. */
int sink_add(struct sink *sink, const Koda__FoundItem *item, struct koda_error *err);
/* If it is time; called now and then by who finds nothing for long. */
int sink_tick(struct sink *sink, struct koda_error *err);
int sink_flush(struct sink *sink, struct koda_error *err);

#endif
