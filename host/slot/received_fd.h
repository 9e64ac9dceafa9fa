/*
 * A descriptor from a worker that may have been taken over: only a regular file, for reading, that the kernel itself serves
 * (a FUSE file system could be the worker's accomplice and stall us for ever, a file of proc could be a window into a
 * process) and of the size that was said. Nothing here waits for a file system that could make us.
 */
#ifndef KODA_HOST_SLOT_RECEIVED_FD_H
#define KODA_HOST_SLOT_RECEIVED_FD_H

#include <stdint.h>

#include "shared/base/err.h"

/* KODA_PROTOCOL: no honest worker sends it. KODA_CONFLICT: the file has another size by now. */
int received_fd_check(int fd, uint64_t size, struct koda_error *err);

#endif
