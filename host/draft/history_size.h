/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much an entry of the history takes up on the disk. Measuring looks at every name in it, so the
 * result is kept in its file `size` for as long as nothing changes.
 */
#ifndef KODA_HOST_DRAFT_HISTORY_SIZE_H
#define KODA_HOST_DRAFT_HISTORY_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the bytes. If they were not known and the entry is locked, they are noted; a size that could
 * not be counted to the end is UINT64_MAX / 2. */
uint64_t history_size(int entry, bool locked);
/* Something is going to be changed in the entry. */
void history_size_forget(int entry);

#endif
