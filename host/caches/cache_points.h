/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount points of private caches in directories that commands write. If one is missing, the host
 * makes it, so that no command can. The last slot that needs it removes it again, if it is still
 * empty. A mount disappears with the directory that it is on, so each slot holds a shared lock
 * (flock) on the list of directories that were made. If a host was killed, the next slot with such
 * places removes what that host made.
 */
#ifndef KODA_HOST_CACHES_CACHE_POINTS_H
#define KODA_HOST_CACHES_CACHE_POINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct cache_points {
	int fd;     /* the list, locked; -1: nothing was needed, or there is no place for a list */
	char *path; /* owned by this struct */
};
#define CACHE_POINTS_NONE                                                                          \
	(struct cache_points)                                                                      \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Make the missing mount points among the n paths. cache_points_done() releases *ret. Returns 0,
 * or -1 with *err set if a place is missing and cannot be made: a command might make it. */
int cache_points_make(const char *home, const char *const *path, size_t n, struct cache_points *ret,
    struct koda_error *err);

/* Remove the directories if no other slot needs them, and release *p. clean: all processes of the
 * slot have ended, so none can make a removed directory again. Without it nothing is removed. */
void cache_points_done(struct cache_points *p, bool clean);

#endif
