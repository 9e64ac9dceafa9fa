/* SPDX-License-Identifier: Apache-2.0 */
/* The search for literal texts, and the other functions that process every byte of a file, compared
 * with obvious implementations. */
#include "fuzz/fuzz.h"
#include "search/decode.h"
#include "search/literal.h"

static bool
is_at(const char *p, const char *needle, size_t len, bool ignore_case)
{
	for (size_t i = 0; i < len; i++) {
		char a = ignore_case ? literal_lower(p[i]) : p[i];
		char b = ignore_case ? literal_lower(needle[i]) : needle[i];

		if (a != b)
			return false;
	}
	return true;
}

static const char *
find(const char *needle, size_t len, const char *hay, size_t size, bool ignore_case)
{
	for (size_t i = 0; i + len <= size; i++)
		if (is_at(hay + i, needle, len, ignore_case))
			return hay + i;
	return NULL;
}

static void
check_sweeps(const char *text, size_t size)
{
	struct sweep_seen seen = sweep_look(text, size);
	size_t newlines = 0, ascii = size;
	bool nul = false;

	for (size_t i = size; i-- > 0;) {
		newlines += text[i] == '\n';
		nul |= text[i] == '\0';
		if (((unsigned char)text[i] & 0x80) != 0)
			ascii = i;
	}
	must(sweep_count(text, size, '\n') == newlines);
	must(sweep_ascii(text, size) == ascii);
	must(seen.nul == nul && seen.high == (ascii < size));
}

/* Decoding in two pieces, cut anywhere, gives the same result, and the result is UTF-8. */
static void
check_decode(const uint8_t *data, size_t size, size_t cut)
{
	char *whole = malloc(DECODE_SIZE(size) + 8), *pieces = malloc(DECODE_SIZE(size) + 8);
	struct decode a = { .big_endian = cut % 2 != 0 }, b = a;
	size_t n, m;

	must(whole != NULL && pieces != NULL);
	cut = size > 0 ? cut % size : 0;
	n = decode_utf16(&a, data, size, whole);
	n += decode_end(&a, whole + n);
	m = decode_utf16(&b, data, cut, pieces);
	m += decode_utf16(&b, data + cut, size - cut, pieces + m);
	m += decode_end(&b, pieces + m);
	must(n <= DECODE_SIZE(size));
	must(n == m && memcmp(whole, pieces, n) == 0);
	must(decode_is_utf8(whole, n));
	free(whole);
	free(pieces);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct literal l;
	bool ignore_case;
	size_t len;

	if (size < 3)
		return 0;
	ignore_case = (data[0] & 1) != 0;
	len = 1 + data[1] % LITERAL_MAX;
	text += 2;
	size -= 2;
	check_sweeps(text, size);
	check_decode((const uint8_t *)text, size, data[0]);
	if (len > size)
		return 0;
	literal_init(&l, text, len, ignore_case);
	must(literal_find(&l, text + len, size - len) ==
	    find(text, len, text + len, size - len, ignore_case));
	must(literal_find(&l, text, size) == text);
	must(literal_find(&l, text + 1, size - 1) ==
	    find(text, len, text + 1, size - 1, ignore_case));
	return 0;
}
