/* SPDX-License-Identifier: Apache-2.0 */
#include "search/texts.h"

#include <limits.h>
#include <string.h>

/* The least weight of the texts, reduced for each doubling of their number. */
static unsigned
weight_of(const struct texts *texts)
{
	unsigned least = UINT_MAX, less = 0;

	for (size_t i = 0; i < texts->n; i++) {
		unsigned sum = 0;

		for (size_t k = 0; k < texts->text[i].len; k++)
			sum += literal_weight(texts->text[i].text[k]);
		least = sum < least ? sum : least;
	}
	for (size_t n = texts->n; n > 1; n = (n + 1) / 2)
		less += 4;
	return texts->n > 0 && least > less ? least - less : 0;
}

void
texts_set(struct texts *texts, const struct literal_text *text)
{
	texts->n = 1;
	texts->text[0] = *text;
	texts->weight = weight_of(texts);
}

void
texts_add(struct texts *a, const struct texts *b)
{
	if (a->n == 0)
		return;
	if (b->n == 0 || a->n + b->n > TEXTS_MAX) {
		*a = (struct texts){ .n = 0 };
		return;
	}
	memcpy(a->text + a->n, b->text, b->n * sizeof(b->text[0]));
	a->n += b->n;
	a->weight = weight_of(a);
}

void
texts_prefer(struct texts *best, const struct texts *other)
{
	if (other->weight > best->weight)
		*best = *other;
}
