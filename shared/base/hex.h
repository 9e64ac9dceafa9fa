/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hexadecimal digits, and back. */
#ifndef KODA_SHARED_BASE_HEX_H
#define KODA_SHARED_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns 0 to 15, or -1 if c is not a hexadecimal digit. */
static inline int
hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Writes 2 * len digits, in lower case, and a NUL. */
static inline void
hex_put(char *ret, const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		*ret++ = digits[p[i] >> 4];
		*ret++ = digits[p[i] & 15];
	}
	*ret = '\0';
}

/*
 * Reads 2 * len digits, in either case, and nothing after the first byte that is not a digit, such
 * as a NUL. Returns false if there are fewer digits; then part of ret may have been written.
 */
static inline bool
hex_parse(uint8_t *ret, size_t len, const char *text)
{
	for (size_t i = 0; i < len; i++) {
		int high = hex_digit((unsigned char)text[2 * i]);
		int low = high < 0 ? -1 : hex_digit((unsigned char)text[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

#endif
