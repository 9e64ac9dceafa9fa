/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second names (hard links) of protected files: a write to the other name changes the file, however
 * the host mounts it.
 *
 * A file that a command made is replaced by a copy with its own inode before the scan accepts it;
 * the other name keeps the old inode. A file that was there before the first command keeps its
 * inode, because the user may share it on purpose: the host protects its other names too. Package
 * managers link packages from a store: the scan compares their content and copies nothing.
 */
#ifndef KODA_WORKER_SCAN_LINKED_H
#define KODA_WORKER_SCAN_LINKED_H

#include "worker/scan/plant.h"

/* Called for each regular file with another name. Returning -1 with errno ends the walk. */
typedef int linked_fn(void *data, int dir_fd, const char *name, const struct stat *st);
/* Visit the files of a place. *entries: how many may still be read. Returns 0, or -1 with errno if
 * not all of it can be read. */
int linked_each(int dir_fd, const char *name, unsigned *entries, linked_fn *fn, void *data);

/* Does the file, or a file in the directory, have another name? 1 or 0; -1 if not all of it can be
 * read. */
int linked_any(int dir_fd, const char *name);
/* Give each such file its own inode and update p->st. -1 with errno if that fails for one of
 * them. */
int linked_own(struct scan *sc, struct plant *p);

#endif
