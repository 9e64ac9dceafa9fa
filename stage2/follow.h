/*
 * Where a path leads that goes through links, also when what it leads to does not exist. A command can put a link on the
 * way to a place that is hidden and does not exist yet: what the host then writes under that name arrives elsewhere.
 */
#ifndef KODA_STAGE2_FOLLOW_H
#define KODA_STAGE2_FOLLOW_H

#include <limits.h>
#include <stdbool.h>

/* Through as many as the kernel follows. */
#define FOLLOW_LINKS_MAX 40

/* False: it goes through no link, or leads nowhere. */
bool follow_path(const char *path, char ret[PATH_MAX]);

#endif
