/* SPDX-License-Identifier: Apache-2.0 */
/* What a file's state says, in the words of the protocol. */
#ifndef KODA_WORKER_FILES_TYPE_H
#define KODA_WORKER_FILES_TYPE_H

#include <stdint.h>
#include <sys/stat.h>

#include "proto/worker.pb-c.h"

Koda__FileType file_type_of(mode_t mode);
/* Returns the ctime in nanoseconds. On most file systems, moving a file changes it. */
uint64_t change_ctime_ns(const struct stat *st);

#endif
