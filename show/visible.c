/* SPDX-License-Identifier: Apache-2.0 */
#include "show/visible.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/deceptive.h"
#include "shared/base/utf8.h"

/*
 * Returns how many of the first bytes are printable ASCII, shown as they are: a shortcut for most
 * text.
 */
static size_t
count_plain(const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t n = 0;

	while (n < len && p[n] >= 0x20 && p[n] < 0x7f)
		n++;
	return n;
}

size_t
visible_lossy(const char *p, size_t len, size_t max, char *ret)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		uint32_t c;
		size_t n = utf8_next((const uint8_t *)p + i, len - i, &c);

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
	size_t n = utf8_next(p, len, &c);
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
visible_put_own(const char *text, visible_put_fn *put, void *to)
{
	put(to, text, strlen(text));
}

void
visible_show(const void *data, size_t len, bool tabs, visible_put_fn *put, void *to)
{
	const uint8_t *p = data;

	while (len > 0) {
		char shown[VISIBLE_MAX];
		size_t n, used = count_plain(p, len);

		if (used > 0) {
			put(to, p, used);
		} else {
			used = visible_escape(p, len, tabs, shown, &n);
			put(to, shown, n);
		}
		p += used;
		len -= used;
	}
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
