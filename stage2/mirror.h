/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory as commands see it, in which some names never appear: for places that are to be
 * hidden and do not exist yet. Nothing can be mounted on a name that does not exist, and mounting
 * when the name appears loses the race against a command that reads all the time. So a file system
 * of our own is mounted on the nearest directory that exists, and each other name in it is bound to
 * what it is on the host. A name that was not bound cannot be reached.
 *
 * What appears, is replaced or is removed on the host is checked after a signal (stage2/notice.h)
 * and bound then, so commands see it a moment later, but always before the next command starts.
 * When a directory on the way to a hidden name appears, it becomes a directory of the mirror with
 * the same property. A link on the way is not shown.
 *
 * Only for directories that no command may write: what a command made in one would be lost.
 */
#ifndef KODA_STAGE2_MIRROR_H
#define KODA_STAGE2_MIRROR_H

#include <stdbool.h>

/*
 * Names in one mirror. Each is a mount, which takes some microseconds. A policy that needs more in
 * one directory is refused.
 */
#define MIRROR_NAMES_MAX 4096

struct mirror;

/*
 * Does the plan have a mount at that path or below it? Then the old object stays bound there when
 * the host replaces it: the new one would come without the mount.
 */
typedef bool mirror_pinned_fn(const void *data, const char *path);

/*
 * Makes a mirror of the directory at that canonical path. Returns NULL if memory is short. `data`
 * is passed to `pinned` and must outlive the mirror.
 */
struct mirror *mirror_new(const char *path, mirror_pinned_fn *pinned, const void *data);
void mirror_free(struct mirror *m);

/*
 * Adds a path below the directory (relative) that never appears. Call it before mirror_attach().
 * Returns 0, or -1 if memory is short.
 */
int mirror_hide(struct mirror *m, const char *rel);

/*
 * Mounts the mirror on the directory that at (O_PATH) refers to, with everything in it. Forgets
 * what it was attached to before. Returns the descriptor of its mount, which stays the mirror's, or
 * -1 with errno: E2BIG if there are too many names.
 */
int mirror_attach(struct mirror *m, int at);

/*
 * A directory has changed: checks it again if it belongs to this mirror. fd is the number from the
 * signal, or -1 for any directory.
 */
void mirror_changed(struct mirror *m, int fd);

/* Checks again if the changes of one of its directories are not signalled. */
void mirror_catch_up(struct mirror *m);

#endif
