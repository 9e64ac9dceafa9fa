/* SPDX-License-Identifier: Apache-2.0 */
/* Do two files have the same extended attributes, as far as they come with a file to the project? */
#ifndef KODA_WORKER_DRAFT_ATTRIBUTES_H
#define KODA_WORKER_DRAFT_ATTRIBUTES_H

#include <stdbool.h>

/*
 * Compares what users gave them, and the access control list, without the marks of overlayfs. The
 * directories are descriptors; the working directory is /proc/self/fd. What cannot be read counts as
 * different.
 */
bool attributes_are_same(int dir, const char *name, int other_dir, const char *other);

#endif
