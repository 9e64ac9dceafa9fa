/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of which every match contains at least one, and how selective they are. Pure. */
#ifndef KODA_SEARCH_TEXTS_H
#define KODA_SEARCH_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "search/literal.h"

struct literal_text {
	size_t len;
	bool ignore_case;
	char text[LITERAL_MAX];
};

#define TEXTS_MAX 8 /* each is searched separately: more would cost more than PCRE2 */
struct texts {
	size_t n;        /* 0: none is known */
	unsigned weight; /* as literal_weight() */
	struct literal_text text[TEXTS_MAX];
};

void texts_set(struct texts *texts, const struct literal_text *text);
/* Makes a the texts of both, for alternatives; none if one of them has none, or they are too
 * many. */
void texts_add(struct texts *a, const struct texts *b);
/* Makes best the more selective of both. */
void texts_prefer(struct texts *best, const struct texts *other);

#endif
