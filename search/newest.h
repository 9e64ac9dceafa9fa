/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the newest of the files that are added, up to a limit. Pure except for allocation. */
#ifndef KODA_SEARCH_NEWEST_H
#define KODA_SEARCH_NEWEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* More than a person reads, and a few tens of megabytes. */
#define NEWEST_MAX 100000

struct newest_file {
	char *path;
	size_t len;
	uint32_t place;
	int64_t mtime_ns;
};

struct newest {
	struct newest_file *v; /* up to twice the limit: pruned when it is full */
	size_t n, size, limit;
	bool more;
};

void newest_init(struct newest *newest, uint64_t limit);
void newest_done(struct newest *newest);
int newest_add(struct newest *newest, const char *path, size_t len, uint32_t place,
    int64_t mtime_ns, struct koda_error *err);
/* Sorts the files, newest first, by place and path if equally old, and cuts them to the limit. */
void newest_sort(struct newest *newest);

#endif
