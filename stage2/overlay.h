/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An overlay mount: changes go to the upper directory, and the lower directories are only read. It
 * is made in the slot's user namespace, which needs `userxattr` (Linux 5.11). It is `volatile`:
 * otherwise each slot that ends would write back all dirty data of the file system that the layer
 * is on.
 *
 * The mounting process needs CAP_DAC_OVERRIDE: the kernel creates its own working directory without
 * any permission.
 */
#ifndef KODA_STAGE2_OVERLAY_H
#define KODA_STAGE2_OVERLAY_H

#include <stddef.h>

#include "shared/base/err.h"

/* Maximum number of lower directories of an overlay. All their names ("/proc/self/fd/N:") have
 * to fit into one value of fsconfig(), which is 256 bytes long. */
#define OVERLAY_LOWER_MAX 12

/* Make an overlay. lower, upper and work are O_PATH descriptors; the topmost lower directory
 * comes first, and work is empty. All have to be on mounts of this mount namespace, and no mount
 * below them may come from an outer one. Returns a mount that is not attached yet, or -1 with
 * *err set. ret_context NULL or: what overlay_refresh() takes, which the caller owns. */
int overlay_new(const int *lower, size_t n_lower, int upper, int work, int *ret_context,
    struct koda_error *err);

/*
 * The kernel looks a name up in the lower directories once: it does not notice that the name is
 * made, removed or replaced there later. Make it forget all names that no process holds. Returns 0,
 * or -1 with errno set.
 *
 * A file that is watched with inotify and was changed in the overlay is looked up as another inode
 * then, and the watch reports nothing any more.
 */
int overlay_refresh(int context);

#endif
