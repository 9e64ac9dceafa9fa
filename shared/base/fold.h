/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds a file name as a case-insensitive file system compares it, as far as that matters for
 * ASCII. Pure.
 */
#ifndef KODA_SHARED_BASE_FOLD_H
#define KODA_SHARED_BASE_FOLD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Folds ASCII letters and the characters that fold to them, drops the characters that such a file
 * system ignores and, as FAT does, dots and spaces at the end. All other bytes stay. Returns false,
 * with "" in ret, if the result does not fit.
 */
bool fold_name(const char *name, size_t len, char *ret, size_t size);

#endif
