/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of a place that the host does not mount: was anything in it changed? */
#ifndef KODA_WORKER_SCAN_DEEP_H
#define KODA_WORKER_SCAN_DEEP_H

#include <stdint.h>
#include <sys/stat.h>

/* Returns a checksum of the metadata of everything in the directory `name`, never 0. Stores in
 * *content a checksum of the contents of the file, or of the directory's files, never 0; content
 * may be NULL. */
uint64_t deep_of(int dir_fd, const char *name, const struct stat *st, uint64_t *content);

#endif
