/* SPDX-License-Identifier: Apache-2.0 */
/* A page in memory: what show/ writes, to be looked at. */
#ifndef KODA_TESTS_KIT_SHEET_H
#define KODA_TESTS_KIT_SHEET_H

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "show/page.h"

struct sheet {
	struct page page;
	char *p; /* valid after sheet_read(), and ends with a NUL */
	size_t len;
};

static inline void
sheet_begin(struct sheet *s, enum page_style style)
{
	*s = (struct sheet){ .page.medium.style = style };
	s->page.f = open_memstream(&s->p, &s->len);
	assert_non_null(s->page.f);
}

static inline const char *
sheet_read(struct sheet *s)
{
	assert_false(s->page.failed);
	assert_int_equal(fflush(s->page.f), 0);
	return s->p;
}

static inline void
sheet_end(struct sheet *s)
{
	fclose(s->page.f);
	free(s->p);
}

#endif
