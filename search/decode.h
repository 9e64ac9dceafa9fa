/* SPDX-License-Identifier: Apache-2.0 */
/* Converts UTF-16 to UTF-8, piece by piece: invalid units become U+FFFD, as in browsers and
 * ripgrep. Also checks whether bytes are UTF-8. Pure. */
#ifndef KODA_SEARCH_DECODE_H
#define KODA_SEARCH_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; the caller sets only big_endian. */
struct decode {
	bool big_endian;
	bool has_byte; /* the input so far ends with half a unit */
	uint8_t byte;
	uint16_t high; /* first half of a surrogate pair, or 0 */
};

/* The most output bytes for n input bytes. */
#define DECODE_SIZE(n) (((n) / 2 + 2) * 3)

/* Returns how many bytes were written to out. */
size_t decode_utf16(struct decode *decode, const uint8_t *in, size_t n, char *out);
/* Ends the input: writes U+FFFD for an incomplete character. Returns how many bytes were
 * written. */
size_t decode_end(struct decode *decode, char *out);

/* Returns whether the text is strict UTF-8: no surrogates, no overlong forms, nothing above
 * U+10FFFF. PCRE2 relies on that. */
bool decode_is_utf8(const char *text, size_t len);

#endif
