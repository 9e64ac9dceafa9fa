/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/fold.h"

#include <stdint.h>
#include <string.h>

#include "shared/base/cleanup.h"

/*
 * Characters that a case-insensitive directory of ext4 drops (Unicode's default ignorable ones): in
 * such a directory '.g<U+200B>it' is '.git'.
 */
static bool
is_ignorable(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0xad, 0xad },
		{ 0x34f, 0x34f },
		{ 0x61c, 0x61c },
		{ 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },
		{ 0x180b, 0x180f },
		{ 0x200b, 0x200f },
		{ 0x202a, 0x202e },
		{ 0x2060, 0x206f },
		{ 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff },
		{ 0xffa0, 0xffa0 },
		{ 0xfff0, 0xfff8 },
		{ 0x1bca0, 0x1bca3 },
		{ 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};

	/* Almost every character: judging a path folds all of its names. */
	if (c < ranges[0].first)
		return false;
	for (size_t i = 0; i < N_ELEMENTS(ranges); i++) {
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	}
	return false;
}

/* Returns what a character beyond ASCII folds to if that is ASCII, or NULL. */
static const char *
ascii_fold(uint32_t c)
{
	static const char *const ligatures[] = { "ff", "fi", "fl", "ffi", "ffl", "st", "st" };

	if (c == 0x212a) /* the Kelvin sign */
		return "k";
	if (c == 0x17f) /* the long s */
		return "s";
	if (c >= 0xfb00 && c <= 0xfb06)
		return ligatures[c - 0xfb00];
	return NULL;
}

static size_t
decode(const unsigned char *s, size_t len, uint32_t *ret)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t c = n < 2 ? s[0] : s[0] & (0x7fu >> n);

	if (n == 0 || n > len) {
		*ret = s[0];
		return 1;
	}
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			*ret = s[0];
			return 1;
		}
		c = c << 6 | (s[i] & 0x3f);
	}
	*ret = c;
	return n;
}

bool
fold_name(const char *name, size_t len, char *ret, size_t size)
{
	/* tail: length of the dots and spaces at the end, which are dropped if nothing follows. */
	size_t n = 0, tail = 0;

	for (size_t i = 0, taken; i < len; i += taken) {
		const char *as = name + i;
		char lower[1];
		uint32_t c;
		size_t k;

		k = taken = decode((const unsigned char *)name + i, len - i, &c);
		/* Nearly every character is ASCII. */
		if (c >= 0x80 && is_ignorable(c))
			continue;
		if (c == '.' || c == ' ') {
			if (n + tail < size - 1)
				ret[n + tail] = (char)c;
			tail++;
			continue;
		}
		if (c >= 'A' && c <= 'Z') {
			lower[0] = (char)(c | 0x20);
			as = lower;
		} else if (c >= 0x80 && ascii_fold(c) != NULL) {
			as = ascii_fold(c);
			k = strlen(as);
		}
		if (n + tail + k >= size) {
			ret[0] = '\0';
			return false;
		}
		n += tail;
		tail = 0;
		memcpy(ret + n, as, k);
		n += k;
	}
	ret[n] = '\0';
	return true;
}
