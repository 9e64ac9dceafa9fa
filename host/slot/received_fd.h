/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a descriptor received from a worker, which may have been taken over. It has to be a
 * regular file, open for reading only, of the size that the reply says, and on a file system that
 * the kernel itself serves: a FUSE file system could be the worker's accomplice and stall the host
 * for ever, and a file of proc could be a window into a process. Nothing here waits for a file
 * system that could make the host wait.
 */
#ifndef KODA_HOST_SLOT_RECEIVED_FD_H
#define KODA_HOST_SLOT_RECEIVED_FD_H

#include <stdint.h>

#include "shared/base/err.h"

/* Returns 0, or -1 with *err set: KODA_PROTOCOL if no honest worker would send it, KODA_CONFLICT if
 * the file no longer has that size. Does not take over fd. */
int received_fd_check(int fd, uint64_t size, struct koda_error *err);

#endif
