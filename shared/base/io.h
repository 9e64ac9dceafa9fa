/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: writing and reading to the end, and not waiting. */
#ifndef KODA_SHARED_BASE_IO_H
#define KODA_SHARED_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Writes all of the data, also when it is interrupted. Returns 0, or -1 with errno; then part of
 * the data may have been written.
 */
int write_all(int fd, const void *data, size_t len);
/* Reads to the end of the file, or `size` bytes. Returns how much there was, or -1 with errno. */
ssize_t read_whole(int fd, uint8_t *data, size_t size);
/* Makes operations on fd return EAGAIN instead of waiting. Returns 0, or -1 with errno. */
int set_nonblocking(int fd);

/*
 * Reads the beginning of a small file, such as one in /proc: at most size - 1 bytes, and adds a
 * NUL. Returns the number of bytes, or -1 with errno; then ret is "".
 */
ssize_t io_read_text(const char *path, char *ret, size_t size);

#endif
