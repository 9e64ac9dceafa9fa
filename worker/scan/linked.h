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

/* Does the file, or a file in the directory, have another name? 1 or 0; -1 if not all of it can be
 * read. */
int linked_any(int dir_fd, const char *name);
/* Give each such file its own inode and update p->st. -1 with errno if that fails for one of
 * them. */
int linked_own(struct scan *sc, struct plant *p);
/* A checksum of the content of the file; never 0. */
uint64_t linked_sum(int dir_fd, const char *name, const struct stat *st);

/* Before the first command: find the other names of known files, where commands can write, and
 * protect them. */
void linked_find_all(struct scan *sc);
/* Judge places that are not mounted, or have a second name, because a write through that name
 * causes no event. Each call looks at some of them. -1: no memory. */
int linked_look_again(struct scan *sc);

#endif
