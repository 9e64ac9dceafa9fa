/* Names for kinds of files ("c", "py", "rust"), and the globs that they stand for. A table; decides nothing. */
#ifndef KODA_SHARED_BASE_FILETYPES_H
#define KODA_SHARED_BASE_FILETYPES_H

#include <stddef.h>

struct filetype {
	const char *name;
	const char *const *globs; /* of the last component of a path; ends with NULL */
};

/* Sorted by name. */
extern const struct filetype filetypes[];
extern const size_t n_filetypes;

/* NULL: there is no such type. */
const struct filetype *filetype_find(const char *name);

#endif
