/* "{a,b}" in the glob of a search, written out: "x{a,b}" is "xa" and "xb". Nested, too. Pure. */
#ifndef KODA_SEARCH_BRACES_H
#define KODA_SEARCH_BRACES_H

#include <stddef.h>

/* Of one glob: ten pairs one behind the other. Each is looked at for each name. */
#define BRACES_ALTERNATIVES_MAX 1024
/* Braces in one glob, each a call within a call. */
#define BRACES_MAX 64

/* Non-NULL: stop, that is what is wrong. */
typedef const char *braces_fn(void *data, const char *glob, size_t len);

/*
 * Calls fn for each glob that the one stands for, in order. An empty alternative counts: "a{,b}" is "a" and "ab", as in a
 * shell. '}' and ',' outside of braces are text, and so is everything in a class or behind a backslash. NULL, or what is
 * wrong.
 */
const char *braces_expand(const char *glob, size_t len, braces_fn *fn, void *data);
extern const char BRACES_TOO_MANY[];

#endif
