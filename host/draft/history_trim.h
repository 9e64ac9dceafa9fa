/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of the history, for all roots together. */
#ifndef KODA_HOST_DRAFT_HISTORY_TRIM_H
#define KODA_HOST_DRAFT_HISTORY_TRIM_H

#include "host/draft/history.h"

#define HISTORY_BYTES_MAX (UINT64_C(2) << 30)
#define HISTORY_DAYS_MAX  30
/* Each costs some system calls whenever the history is listed. */
#define HISTORY_ENTRIES_MAX 20000

struct history_bound {
	uint64_t bytes;
	unsigned days;
};

/* The entry that the caller is writing to, and about how much it has; id NULL: none. It is not removed. */
struct history_own {
	const char *id;
	uint64_t bytes;
};

struct history_trimmed {
	size_t entries;
	uint64_t bytes;
	uint64_t left; /* what is still there */
};

/* Remove what is older, and then the oldest entries until the rest holds no more than that. An entry
 * that is in use stays. Returns 0, or -1 if the history cannot be read. */
int history_trim(const char *state, const struct history_bound *bound,
    const struct history_own *own, struct history_trimmed *ret);

/*
 * The history has so many bytes more. Trims it if that is above the bound, or if it was not counted for
 * an hour: what is above is known from a total that all hosts share, so this costs the same however
 * much there is. Never waits for another host. Returns 0, or -1 if it cannot be counted; *ret is set
 * nevertheless.
 */
int history_grown(const char *state, uint64_t bytes, const struct history_bound *bound,
    const struct history_own *own, struct history_trimmed *ret);

#endif
