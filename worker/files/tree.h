/* What lies below a directory: on descriptors, never through a link, never onto another file system. */
#ifndef KODA_WORKER_FILES_TREE_H
#define KODA_WORKER_FILES_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/rules/access.h"

/* More names than this are refused: what cannot be looked through in time cannot be promised. */
#define TREE_ENTRIES_MAX 200000
/* Each level holds a descriptor while those below it are looked at. */
#define TREE_DEPTH_MAX 100

/*
 * May the directory behind dir_fd (O_PATH), whose canonical path is `path`, be moved or removed with all
 * that is in it? *ret_entries: how many names are below it. removing: also, could each directory be
 * emptied? 0, or -1 with *err set.
 */
int tree_check(const struct access_subject *who, enum access_op op, int dir_fd, const char *path,
    uint64_t *ret_entries, struct koda_error *err);

/* 1 or 0, or -1 with errno. */
int tree_is_empty(int dir_fd);

/* Remove whatever has that name, with all below it. Goes on behind what cannot be removed; -1 with errno
 * (of the first) when something is left. Nothing there: 0. */
int tree_remove(int dir_fd, const char *name);

/*
 * Rename without replacing anything: -1 with EEXIST when there is something. On a file system that cannot
 * promise that (FUSE, older NFS) it looks first: what somebody else makes in between is then replaced,
 * if it is a file.
 */
int tree_rename_new(int from_dir, const char *from, int to_dir, const char *to);

#endif
