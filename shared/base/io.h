/* Reading and writing descriptors to the end. */
#ifndef KODA_SHARED_BASE_IO_H
#define KODA_SHARED_BASE_IO_H

#include <stddef.h>

/*
 * Writes all of the data, also when it is interrupted. Returns 0, or -1 with errno; then part of
 * the data may have been written.
 */
int write_all(int fd, const void *data, size_t len);

#endif
