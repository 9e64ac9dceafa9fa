/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a draft never shows: places that are to be hidden and do not exist yet. Nothing can be
 * mounted on a name that does not exist. Overlayfs does not notice that the host makes it later, so
 * commands would not be stopped from reading it once the kernel forgets that it was missing. So the
 * draft has a layer between the project and the changes, N/m, with a whiteout for each such name.
 */
#ifndef KODA_HOST_DRAFT_MASK_H
#define KODA_HOST_DRAFT_MASK_H

#include "host/draft/store.h"
#include "shared/base/err.h"

/* Begin a boot without such names. Returns 0, or -1 with *err set. */
int draft_mask_clear(const struct draft *d, struct koda_error *err);

/* The canonical path, if it is in a directory of the draft, is not shown unless it exists now. A path
 * that goes through a link of the project is left as it is. Returns 0, or -1 with *err set. */
int draft_mask_add(const struct draft *d, const char *path, struct koda_error *err);

#endif
