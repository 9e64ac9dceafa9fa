/* Texts of which one has to be in whatever matches, and how much is known by finding one. Pure. */
#ifndef KODA_SEARCH_TEXTS_H
#define KODA_SEARCH_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "search/literal.h"

struct text {
	size_t len;
	bool ignore_case;
	char text[LITERAL_MAX];
};

#define TEXTS_MAX 8 /* each is looked for on its own: more would cost more than PCRE2 */
struct texts {
	size_t n;        /* 0: none is known */
	unsigned weight; /* as literal_weight() */
	struct text text[TEXTS_MAX];
};

void texts_set(struct texts *texts, const struct text *text);
/* Any of those in a or in b; none when one of them has none, or they are too many. */
void texts_add(struct texts *a, const struct texts *b);
/* The better of both. */
void texts_prefer(struct texts *best, const struct texts *other);

#endif
