/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef KODA_SHARED_BASE_UTF8_H
#define KODA_SHARED_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at p, of which len bytes (at least one) are there: how many bytes it has, its code point in *ret. 0: there is
 * no well-formed character. */
size_t utf8_next(const uint8_t *p, size_t len, uint32_t *ret);
bool utf8_is_valid(const void *data, size_t len);

#endif
