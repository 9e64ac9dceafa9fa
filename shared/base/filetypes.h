/* SPDX-License-Identifier: Apache-2.0 */
/* Names for kinds of files ("c", "py", "rust") and their globs. Only a table. */
#ifndef KODA_SHARED_BASE_FILETYPES_H
#define KODA_SHARED_BASE_FILETYPES_H

#include <stddef.h>

struct filetype {
	const char *name;
	/* Match the last component of a path; the array ends with NULL. */
	const char *const *globs;
};

/* Sorted by name. */
extern const struct filetype filetypes[];
extern const size_t n_filetypes;

/* Returns NULL if there is no such type. */
const struct filetype *filetype_find(const char *name);

#endif
