/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/utf8.h"

size_t
utf8_length(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

size_t
utf8_next(const uint8_t *p, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t n = utf8_length(p[0]);

	if (n == 1)
		*ret = c;
	if (n < 2)
		return n;
	if (n > len)
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

bool
utf8_is_valid(const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len;) {
		uint32_t c;
		size_t n = p[i] < 0x80 ? 1 : utf8_next(p + i, len - i, &c);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}
