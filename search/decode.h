/* UTF-16 -> UTF-8, piece by piece: what is no character becomes U+FFFD, as in browsers and ripgrep. And whether bytes are
 * UTF-8. Pure. */
#ifndef KODA_SEARCH_DECODE_H
#define KODA_SEARCH_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; only big_endian is the caller's. */
struct decode {
	bool big_endian;
	bool has_byte; /* half of a unit came last */
	uint8_t byte;
	uint16_t high; /* the first of a pair, or 0 */
};

/* The most that comes of n bytes. */
#define DECODE_SIZE(n) (((n) / 2 + 2) * 3)

/* Returns how many bytes were written to out. */
size_t decode_utf16(struct decode *decode, const uint8_t *in, size_t n, char *out);
/* There is no more: what is missing its other half. */
size_t decode_end(struct decode *decode, char *out);

/* Without surrogates, nothing in more bytes than it takes, nothing beyond U+10FFFF: what PCRE2 relies on. */
bool decode_is_utf8(const char *text, size_t len);

#endif
