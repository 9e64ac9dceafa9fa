/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct koda_search_options -> packed Search; replies of koda-fs-search -> struct koda_found. A
 * pattern or a file may have taken over the search process: everything it sends is validated here,
 * once. Pure except for allocation.
 */
#ifndef KODA_HOST_SEARCH_MARSHAL_SEARCH_H
#define KODA_HOST_SEARCH_MARSHAL_SEARCH_H

#include "host/slot/request.h"
#include "shared/base/bytes.h"

/* Returns 0 with *ret, which the caller owns, or -1 with *err set: KODA_INVALID or KODA_TOO_LARGE
 * for what can be checked without looking at the file system. */
int marshal_search(const struct koda_search_options *options, uint64_t id, struct packed *ret,
    struct koda_error *err);

/* The request, as far as answers are compared with it, and what one item leaves for the next. */
struct marshal_found {
	enum koda_search_kind kind;
	unsigned flags;
	uint64_t limit;
	unsigned max_columns, around; /* around: the most lines of context for one match */
	size_t n_places;
	uint64_t found, context, troubles; /* reported so far */
	uint32_t place;
	size_t path_len;
	bool has_path; /* an item of this page has set `path` */
	char path[PATH_LEN_MAX + 1];
	char reason[KODA_MESSAGE_MAX];
	struct koda_span *spans;
	size_t spans_size;
};
void marshal_found_init(struct marshal_found *m, const struct koda_search_options *options);
void marshal_found_done(struct marshal_found *m);

/* The next search process starts from the beginning. */
void marshal_found_again(struct marshal_found *m);
/* A new page starts. */
void marshal_found_page(struct marshal_found *m);
/* marshal_found_item() returns 0 with *ret, which is valid until the next call and as long as the
 * message, or -1 with KODA_PROTOCOL (or KODA_INTERNAL). marshal_searched() takes the final answer;
 * it returns 0 with *ret, or -1 with KODA_PROTOCOL. */
int marshal_found_item(struct marshal_found *m, const Koda__FoundItem *item, struct koda_found *ret,
    struct koda_error *err);
int marshal_searched(const struct marshal_found *m, const Koda__Searched *msg,
    struct koda_search_result *ret, struct koda_error *err);

#endif
