/*
 * Where in these bytes is that text. Pure; the bytes may be anything, NUL included.
 *
 * Ignoring case is that of ASCII. The letters k and s have a third form each in Unicode (U+212A, U+017F), which this does not
 * know of: who wants Unicode's case keeps them out (syntax.h does).
 */
#ifndef KODA_SEARCH_LITERAL_H
#define KODA_SEARCH_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "search/sweep.h"

/* Longer ones are not found any faster. */
#define LITERAL_MAX 64

struct literal {
	size_t len;
	bool ignore_case;
	char text[LITERAL_MAX]; /* in lower case, when case is ignored */
	struct sweep_pair rare;
};

/* len: 1 to LITERAL_MAX. */
void literal_init(struct literal *literal, const char *text, size_t len, bool ignore_case);

/* The first one in hay, or NULL. */
const char *literal_find(const struct literal *literal, const char *hay, size_t len);

/* How much is known by finding one, in quarters of a bit: a byte in 2^(n/4) of source code and prose is this one. */
unsigned literal_weight(char byte);

char literal_lower(char c);

#endif
