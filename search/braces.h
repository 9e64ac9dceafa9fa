/* SPDX-License-Identifier: Apache-2.0 */
/* Expands braces in the glob of a search: "x{a,b}" is "xa" and "xb". Braces may be nested. Pure. */
#ifndef KODA_SEARCH_BRACES_H
#define KODA_SEARCH_BRACES_H

#include <stddef.h>

/* Globs that one glob may expand to: ten pairs of two in a row. Each is checked for each name. */
#define BRACES_ALTERNATIVES_MAX 1024
/* Brace pairs in one glob, each a level of recursion. */
#define BRACES_MAX 64

/* Returns NULL to go on, or what is wrong, which stops the expansion. */
typedef const char *braces_fn(void *data, const char *glob, size_t len);

/*
 * Calls fn for each glob that `glob` expands to, in order. An empty alternative counts: "a{,b}" is
 * "a" and "ab", as in a shell. '}' and ',' outside of braces are text, and so is everything in a
 * class or after a backslash. Returns NULL, or what is wrong.
 */
const char *braces_expand(const char *glob, size_t len, braces_fn *fn, void *data);
extern const char BRACES_TOO_MANY[];

#endif
