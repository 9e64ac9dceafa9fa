#include "show/visible.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/deceptive.h"

size_t
visible_next(const uint8_t *p, size_t len, uint32_t *ret)
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

size_t
visible_plain(const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t n = 0;

	while (n < len && p[n] >= 0x20 && p[n] < 0x7f)
		n++;
	return n;
}

bool
visible_is_utf8(const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		uint32_t c;
		size_t n = visible_plain(p, len);

		if (n == 0)
			n = visible_next(p, len, &c);
		if (n == 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

size_t
visible_lossy(const char *p, size_t len, size_t max, char *ret)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		uint32_t c;
		size_t n = visible_next((const uint8_t *)p + i, len - i, &c);

		if (i + (n > 0 ? n : 1) > max)
			break;
		if (n == 0) {
			memcpy(ret + out, replacement, sizeof(replacement) - 1);
			out += sizeof(replacement) - 1;
			i++;
			continue;
		}
		memcpy(ret + out, p + i, n);
		out += n;
		i += n;
	}
	ret[out] = '\0';
	return out;
}

size_t
visible_escape(const uint8_t *p, size_t len, bool tabs, char out[VISIBLE_MAX], size_t *ret_len)
{
	uint32_t c = 0;
	size_t n = visible_next(p, len, &c);
	int k;

	if (n == 0) {
		k = snprintf(out, VISIBLE_MAX, "\\x%02x", p[0]);
		n = 1;
	} else if (!is_deceptive(c) || (c == '\t' && tabs)) {
		memcpy(out, p, n);
		k = (int)n;
	} else if (c < 0x80) {
		k = snprintf(out, VISIBLE_MAX, "\\x%02x", c);
	} else {
		k = snprintf(out, VISIBLE_MAX, "\\u{%x}", c);
	}
	*ret_len = (size_t)k;
	return n;
}

void
visible_base64(const void *data, size_t len, char *out)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t three = (uint32_t)p[i] << 16;

		if (left > 1)
			three |= (uint32_t)p[i + 1] << 8;
		if (left > 2)
			three |= p[i + 2];
		*out++ = digits[three >> 18];
		*out++ = digits[three >> 12 & 63];
		*out++ = left > 1 ? digits[three >> 6 & 63] : '=';
		*out++ = left > 2 ? digits[three & 63] : '=';
	}
}
