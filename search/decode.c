/* SPDX-License-Identifier: Apache-2.0 */
#include "search/decode.h"

#include "search/sweep.h"
#include "shared/base/utf8.h"

#define REPLACEMENT 0xfffd

static size_t
put(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static size_t
put_unit(struct decode *d, uint16_t unit, char *out)
{
	uint32_t high = d->high;
	size_t n = 0;

	d->high = 0;
	if (high != 0 && unit >= 0xdc00 && unit < 0xe000)
		return put(out, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00u));
	if (high != 0)
		n = put(out, REPLACEMENT);
	if (unit >= 0xd800 && unit < 0xdc00) {
		d->high = unit;
		return n;
	}
	return n + put(out + n, unit >= 0xdc00 && unit < 0xe000 ? REPLACEMENT : unit);
}

size_t
decode_utf16(struct decode *d, const uint8_t *in, size_t n, char *out)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (!d->has_byte) {
			d->byte = in[i];
			d->has_byte = true;
			continue;
		}
		d->has_byte = false;
		len += put_unit(d,
		    d->big_endian ? (uint16_t)(d->byte << 8 | in[i])
				  : (uint16_t)(in[i] << 8 | d->byte),
		    out + len);
	}
	return len;
}

size_t
decode_end(struct decode *d, char *out)
{
	bool any = d->has_byte || d->high != 0;

	d->has_byte = false;
	d->high = 0;
	return any ? put(out, REPLACEMENT) : 0;
}

bool
decode_is_utf8(const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;

	for (size_t i = 0; i < len;) {
		uint32_t c;
		size_t n =
		    p[i] < 0x80 ? sweep_ascii(text + i, len - i) : utf8_next(p + i, len - i, &c);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}
