/* BLAKE2b-256 of contents. */
#ifndef KODA_WORKER_FILES_DIGEST_H
#define KODA_WORKER_FILES_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

void digest_bytes(const void *data, size_t len, uint8_t ret[KODA_DIGEST_BYTES]);

/* Of a regular file from its beginning to its end. fd open for reading; its position stays. 0, or -1 with
 * errno. */
int digest_file(int fd, uint8_t ret[KODA_DIGEST_BYTES]);

#endif
