/* SPDX-License-Identifier: Apache-2.0 */
/* What a search of content looks for, and how. */
#ifndef KODA_SEARCH_GREP_OPTIONS_H
#define KODA_SEARCH_GREP_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of all patterns together. */
#define GREP_PATTERN_BYTES_MAX (256u << 10)

struct grep_options {
	unsigned flags; /* enum koda_search_flags; flags not for grep are ignored */
	const char *const *patterns;
	size_t n_patterns;
	unsigned before, after;
	uint64_t max_per_file; /* 0: all */
	unsigned max_columns;  /* never 0 */
};

#endif
