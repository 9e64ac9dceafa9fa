/* The bounds of the history, for all roots together. */
#ifndef KODA_HOST_DRAFT_HISTORY_TRIM_H
#define KODA_HOST_DRAFT_HISTORY_TRIM_H

#include "host/draft/history.h"

#define HISTORY_BYTES_MAX  (UINT64_C(2) << 30)
#define HISTORY_DAYS_MAX   30
#define HISTORY_AGE_MAX_NS (INT64_C(86400) * 1000000000 * HISTORY_DAYS_MAX)

struct history_trimmed {
	size_t entries;
	uint64_t bytes;
};

/* Remove what is older, and then the oldest entries until the rest holds no more than that. An entry
 * that is in use stays. Returns 0, or -1 if the history cannot be read. */
int history_trim(const char *state, uint64_t bytes_max, int64_t age_max_ns,
    struct history_trimmed *ret);

#endif
