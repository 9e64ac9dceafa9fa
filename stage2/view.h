/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the mount plan, in stage2's own mount namespace, by descriptor: each place is
 * resolved once, without following links, compared with (dev, ino), cloned (open_tree) and moved
 * onto itself (move_mount). Nothing is mounted by name, so nothing can be put in its way.
 *
 * It uses the new mount calls of kernels up to Linux 5.8, and one of Linux 5.12 that has a fallback
 * (stage2/restrict.h).
 */
#ifndef KODA_STAGE2_VIEW_H
#define KODA_STAGE2_VIEW_H

#include "stage2/view_entry.h"

/* Unshare the mount namespace, turn propagation off, and make a file system in memory of this
 * size. Call it once. Returns NULL with *err set on failure. */
struct slot_view *view_new(uint64_t bytes, struct koda_error *err);
/* Note the root and the directories that commands write. Returns 0, or -1 with *err set. */
int view_set_roots(struct slot_view *v, const Koda__Boot *b, struct koda_error *err);

/* Mount an empty directory on the place that `at` refers to. For stage2/caches. Returns 0, or -1
 * with errno. */
int view_cover(const struct slot_view *v, int at);

/* Unmount what is mounted now and mount this plan, which is copied. Entries whose place does not
 * exist are marked. With idle no command runs: hidden places in directories that commands write
 * are left to view_repair(), which mounts them before a command starts. Returns 0, or -1 with
 * *err set if the view cannot be trusted any more: then stage2 ends. */
int view_mount(struct slot_view *v, Koda__Mount *const *mounts, size_t n, bool idle,
    struct koda_error *err);

/*
 * Call it for the target of a link on the path of a place that is to be hidden, is in a directory
 * that commands write, and does not exist: the target has to be hidden as well when it appears.
 * Adds an entry, or reuses one whose target never appeared, and sets *ret to its number. Returns 1
 * if the entry is new or for another place now, 0 if there is nothing to do, -1 with errno: no
 * memory, or E2BIG.
 *
 * An entry that hides something stays until the plan changes, also when no link leads there any
 * more: another process may have written through the link what commands must not read.
 */
#define VIEW_LINKED_MAX 256
int view_add_linked(struct slot_view *v, const char *path, size_t *ret);

/*
 * Call it when no command runs. Uncovers the hidden places in directories that commands write that
 * appeared after the plan was mounted: a command may have made such a place, with a repository in
 * it, and the worker has to find the repository. view_repair() hides the places again before the
 * next command starts. Returns how many it has uncovered.
 */
size_t view_uncover(struct slot_view *v);

/* Names in a directory on the host have changed (stage2/notice.h): the mirrors compare again. fd
 * is the descriptor that the signal named; -1: any. */
void view_changed(struct slot_view *v, int fd);
/* Like view_changed(), for directories whose changes the kernel does not signal. Call it before
 * a command starts. */
void view_catch_up(struct slot_view *v);

/* Mount again what a process outside made disappear. The place need not be the inode of the plan
 * any more (a file that was replaced is not), but has to be of the same type. Returns the number
 * of entries repaired, with *ret_lost the number of those that are gone or of another type now;
 * -1 as for view_mount(). */
int view_repair(struct slot_view *v, size_t *ret_lost, struct koda_error *err);

#endif
