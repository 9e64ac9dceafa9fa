/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b-256 digests of content. */
#ifndef KODA_WORKER_FILES_DIGEST_H
#define KODA_WORKER_FILES_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

void digest_bytes(const void *data, size_t len, uint8_t ret[KODA_DIGEST_BYTES]);

/* Computes the digest of a whole regular file. fd: open for reading; its position does not
 * change. Returns 0, or -1 with errno. */
int digest_file(int fd, uint8_t ret[KODA_DIGEST_BYTES]);

#endif
