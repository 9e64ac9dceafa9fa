#include "shared/base/utf8.h"

size_t
utf8_next(const uint8_t *p, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t n;

	if (c < 0x80) {
		*ret = c;
		return 1;
	}
	if (c >= 0xc2 && c <= 0xdf)
		n = 2;
	else if (c >= 0xe0 && c <= 0xef)
		n = 3;
	else if (c >= 0xf0 && c <= 0xf4)
		n = 4;
	else
		return 0;
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
