/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the path of a cache through every symbolic link, even if a part of it does not exist
 * yet: a tool of the host would follow it in the same way once a command has made that part. */
#ifndef KODA_HOST_CACHES_CACHE_PLACE_H
#define KODA_HOST_CACHES_CACHE_PLACE_H

#include <stdbool.h>

#include "shared/base/bytes.h"
#include "shared/rules/policy.h"

struct cache_place {
	char path[PATH_LEN_MAX + 1]; /* canonical */
	/* The first link, or first place that cannot be searched, on the way, if it is in a
	 * directory of the list: a command could replace it by a directory. "" if there is none.
	 * Also set if the path leads nowhere. */
	char way[PATH_LEN_MAX + 1];
};

/* Follow path. known is a canonical directory, whose path has no links. Returns 0, or -1 if the
 * path leads nowhere. */
int cache_place_find(const char *path, const char *known, const struct policy_list *writable,
    struct cache_place *ret);

/* Returns true if path is strictly inside a directory of the list. */
bool cache_place_is_within(const char *path, const struct policy_list *writable);

#endif
