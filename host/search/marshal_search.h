/*
 * struct koda_search_options -> packed Search; what koda-fs-search tells -> struct koda_found. A searching process may have
 * been taken over by a pattern or a file: all that it says is validated here, once. Pure but for allocation.
 */
#ifndef KODA_HOST_SEARCH_MARSHAL_SEARCH_H
#define KODA_HOST_SEARCH_MARSHAL_SEARCH_H

#include "host/slot/request.h"
#include "shared/base/bytes.h"

/* KODA_INVALID, KODA_TOO_LARGE: what can be said without looking. */
int marshal_search(const struct koda_search_options *options, uint64_t id, struct packed *ret,
    struct koda_error *err);

/* What was asked, as far as answers are held against it; and what the last item left for the next one. */
struct marshal_found {
	enum koda_search_kind kind;
	unsigned flags;
	uint64_t limit;
	unsigned max_columns, around; /* around: lines of context that one match can have */
	size_t n_places;
	uint64_t found, context, troubles; /* told so far */
	uint32_t place;
	size_t path_len;
	bool has_path; /* of an item of this page */
	char path[PATH_LEN_MAX + 1];
	char reason[KODA_MESSAGE_MAX];
	struct koda_span *spans;
	size_t spans_size;
};
void marshal_found_init(struct marshal_found *m, const struct koda_search_options *options);
void marshal_found_done(struct marshal_found *m);

/* A successor begins at the beginning. */
void marshal_found_again(struct marshal_found *m);
/* A page begins. */
void marshal_found_page(struct marshal_found *m);
/* 0 with *ret, which is valid until the next call and as long as the message; -1 with KODA_PROTOCOL (or INTERNAL). */
int marshal_found_item(struct marshal_found *m, const Koda__FoundItem *item, struct koda_found *ret,
    struct koda_error *err);
int marshal_searched(const struct marshal_found *m, const Koda__Searched *msg,
    struct koda_search_result *ret, struct koda_error *err);

#endif
