/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef KODA_SHARED_BASE_UTF8_H
#define KODA_SHARED_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns how many bytes a character has that begins with this byte: 1 to 4, or 0 if no character
 * does.
 */
size_t utf8_length(uint8_t first);

/*
 * Decodes the character at p; len, the number of bytes that are there, is at least 1. Returns the
 * number of bytes of the character with its code point in *ret, or 0 if it is not well-formed.
 */
size_t utf8_next(const uint8_t *p, size_t len, uint32_t *ret);
bool utf8_is_valid(const void *data, size_t len);

#endif
