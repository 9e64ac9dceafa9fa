/*
 * A directory that is changed in a layer of its own: what lies below it is only read. In the slot's user namespace, so
 * with `userxattr` (Linux 5.11), and `volatile`: without it the end of each slot would write back all of the layer's file
 * system.
 *
 * The mounting process needs CAP_DAC_OVERRIDE: the kernel gives its own working directory no permission at all.
 */
#ifndef KODA_STAGE2_OVERLAY_H
#define KODA_STAGE2_OVERLAY_H

#include <stddef.h>

#include "shared/base/err.h"

/* Directories that one overlay has below its upper one. All their names ("/proc/self/fd/N:") have to fit into one value of
 * fsconfig(), which is 256 bytes long. */
#define OVERLAY_LOWER_MAX 12

/* O_PATH descriptors, the topmost first, then the upper and the working directory, which is empty. All have to lie in
 * mounts of this mount namespace, and no mount below them may come from an outer one. Returns a mount that is attached
 * nowhere yet, or -1 with *err set. */
int overlay_new(const int *lower, size_t n_lower, int upper, int work, struct koda_error *err);

#endif
