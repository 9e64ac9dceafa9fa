/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands see in hidden places: an empty directory or an empty file. They are on the slot's
 * file system in memory, which is made here as well.
 */
#ifndef KODA_STAGE2_HIDDEN_H
#define KODA_STAGE2_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Before Linux 6.15 only what is mounted can be cloned, so they are mounted here. */
#define HIDDEN_DIR "/run/koda/hidden"

/* A file and its directory entry take about a kilobyte of kernel memory, which does not count
 * towards the size of a file system in memory. With one file for this many bytes, all files take
 * at most a quarter of the size in addition. */
#define HIDDEN_BYTES_PER_FILE 4096

/*
 * Makes the file system in memory, of this size, and mounts the directory of it with which places
 * are hidden. Returns 0, or -1 with *err set. The caller owns both descriptors, also after a
 * failure; they are -1 if not opened.
 */
int hidden_make(uint64_t bytes, int *ret_memory_fd, int *ret_hidden_fd, struct koda_error *err);

/* Returns a mount of the empty directory, or of the empty file, that is attached nowhere; -1 with
 * errno. */
int hidden_clone(int hidden_fd, bool directory);

#endif
