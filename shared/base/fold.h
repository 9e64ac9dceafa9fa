/* A file name as a case-insensitive file system compares it, as far as that matters for ASCII. Pure. */
#ifndef KODA_SHARED_BASE_FOLD_H
#define KODA_SHARED_BASE_FOLD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Fold ASCII letters and the characters that fold to them, drop what such a file system ignores, and, as FAT does, dots
 * and spaces at the end. All other bytes stay. false, with "" in ret, when the result does not fit.
 */
bool fold_name(const char *name, size_t len, char *ret, size_t size);

#endif
