/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a text in bytes. Pure; the bytes may be anything, including NUL.
 *
 * Ignores case only for ASCII. The letters k and s have a third form each in Unicode (U+212A,
 * U+017F), which this does not know: a caller that wants Unicode's case must not use texts with
 * them (syntax.h sees to that).
 */
#ifndef KODA_SEARCH_LITERAL_H
#define KODA_SEARCH_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "search/sweep.h"

/* Longer texts are not found any faster. */
#define LITERAL_MAX 64

struct literal {
	size_t len;
	bool ignore_case;
	char text[LITERAL_MAX]; /* in lower case if case is ignored */
	struct sweep_pair rare;
};

/* len: 1 to LITERAL_MAX. */
void literal_init(struct literal *literal, const char *text, size_t len, bool ignore_case);

/* Returns the first occurrence in hay, or NULL. */
const char *literal_find(const struct literal *literal, const char *hay, size_t len);

/* Returns how rare a byte is, in quarters of a bit: one byte in 2^(n/4) of source code and prose
 * is this one. */
unsigned literal_weight(char byte);

char literal_lower(char c);

#endif
