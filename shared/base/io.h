/* Reading and writing descriptors to the end. */
#ifndef KODA_SHARED_BASE_IO_H
#define KODA_SHARED_BASE_IO_H

#include <stddef.h>

/* All of it, whatever interrupts it. 0, or -1 with errno; part of it may have been written. */
int write_all(int fd, const void *data, size_t len);

#endif
