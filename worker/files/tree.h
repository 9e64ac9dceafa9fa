/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on everything below a directory: on descriptors, never through a link, never onto
 * another file system. */
#ifndef KODA_WORKER_FILES_TREE_H
#define KODA_WORKER_FILES_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/rules/access.h"

/* More names than this are refused: the check would take too long to promise anything. */
#define TREE_ENTRIES_MAX 200000
/* Each level holds a descriptor while the levels below it are checked. */
#define TREE_DEPTH_MAX 100

/*
 * Checks whether the directory at dir_fd (O_PATH), whose canonical path is `path`, may be moved or
 * removed with everything in it. For ACCESS_OP_REMOVE also checks that each directory could be
 * emptied. *ret_entries: the number of names below it. Returns 0, or -1 with *err set.
 */
int tree_check(const struct access_subject *who, enum access_op op, int dir_fd, const char *path,
    uint64_t *ret_entries, struct koda_error *err);
/* The same, and *ret_newest becomes the latest ctime (in nanoseconds) of a name below it, if that is
 * later than *ret_newest. */
int tree_check_newest(const struct access_subject *who, enum access_op op, int dir_fd,
    const char *path, uint64_t *ret_entries, int64_t *ret_newest, struct koda_error *err);

/* Returns 1 if the directory is empty, 0 if not, -1 with errno. */
int tree_is_empty(int dir_fd);

/* Removes whatever has that name, with everything below it. Continues after what cannot be
 * removed. Returns 0, also if nothing is there; -1 with the first errno if something is left. */
int tree_remove(int dir_fd, const char *name);

/*
 * Renames without replacing anything. Returns -1 with EEXIST if the new name exists. On a file
 * system that cannot promise that (FUSE, older NFS) it looks first: a file that another process
 * makes in between is then replaced.
 */
int tree_rename_new(int from_dir, const char *from, int to_dir, const char *to);

#endif
