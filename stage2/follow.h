/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves a path that goes through links, also if its target does not exist. A command can put a
 * link on the way to a hidden place that does not exist yet: what the host then writes under that
 * name ends up elsewhere.
 */
#ifndef KODA_STAGE2_FOLLOW_H
#define KODA_STAGE2_FOLLOW_H

#include <limits.h>
#include <stdbool.h>

/* The number of links that the kernel follows in one path. */
#define FOLLOW_LINKS_MAX 40

/* Stores in ret where the path leads. False: it goes through no link, or leads nowhere. */
bool follow_path(const char *path, char ret[PATH_MAX]);

#endif
