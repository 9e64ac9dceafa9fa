/* SPDX-License-Identifier: Apache-2.0 */
#include "search/reader.h"

#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"

bool
reader_left(const struct pattern_reader *r, size_t n)
{
	return (size_t)(r->end - r->p) >= n;
}

char
reader_peek(const struct pattern_reader *r, size_t i)
{
	return reader_left(r, i + 1) ? r->p[i] : '\0';
}

bool
reader_begins(const struct pattern_reader *r, const char *text)
{
	size_t n = strlen(text);

	return reader_left(r, n) && memcmp(r->p, text, n) == 0;
}

static void
put(struct pattern_reader *r, const char *text, size_t len)
{
	memcpy(r->out + r->out_len, text, len);
	r->out_len += len;
}

void
reader_put(struct pattern_reader *r, const char *text)
{
	put(r, text, strlen(text));
}

void
reader_copy(struct pattern_reader *r, size_t n)
{
	put(r, r->p, n);
	r->p += n;
}

void
reader_give_up(struct pattern_reader *r)
{
	r->unknown = true;
	r->p = r->end;
}

bool
reader_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool
reader_is_alnum(char c)
{
	return reader_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

size_t
reader_char_len(char c)
{
	unsigned char b = (unsigned char)c;

	return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

size_t
reader_property(const struct pattern_reader *r, bool *ret)
{
	/* General categories; a script and other properties may contain anything. */
	static const char *const safe[] = { "L", "Lu", "Ll", "Lt", "Lm", "Lo", "L&", "N", "Nd",
		"Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk",
		"So", "M", "Mn", "Mc", "Me", "Z", "Zs", "Zl", "Zp" };
	const char *name = r->p + 2, *close;
	size_t n;

	*ret = false;
	if (!reader_left(r, 3))
		return 0;
	if (*name == '{') {
		name++;
		close = memchr(name, '}', (size_t)(r->end - name));
		if (close == NULL)
			return 0;
		n = (size_t)(close - name);
	} else {
		close = name;
		n = 1;
	}
	for (size_t i = 0; r->p[1] == 'p' && i < N_ELEMENTS(safe); i++)
		if (strlen(safe[i]) == n && memcmp(safe[i], name, n) == 0)
			*ret = true;
	return (size_t)(close + 1 - r->p);
}

static int
digit_of(char c, unsigned base)
{
	int v = hex_digit((unsigned char)c);

	return v < (int)base ? v : -1;
}

size_t
reader_number(const struct pattern_reader *r, size_t at, unsigned base, size_t max, uint32_t *ret)
{
	size_t n = 0;

	*ret = 0;
	/* No code point is larger; PCRE2 has refused those. */
	while (n < max && *ret < (1u << 24) && digit_of(reader_peek(r, at + n), base) >= 0) {
		*ret = *ret * base + (uint32_t)digit_of(reader_peek(r, at + n), base);
		n++;
	}
	return n;
}

size_t
reader_escape(const struct pattern_reader *r, uint32_t *ret)
{
	static const char names[] = "trfaen";
	static const char values[] = "\t\r\f\a\033\n";
	char c = reader_peek(r, 1);
	const char *named;
	size_t n;

	if (!reader_left(r, 2) || (unsigned char)c >= 0x80)
		return 0;
	*ret = (unsigned char)c;
	if (!reader_is_alnum(c))
		return 2;
	named = strchr(names, c);
	if (named != NULL) {
		*ret = (unsigned char)values[named - names];
		return 2;
	}
	if (c == '0')
		return 2 + reader_number(r, 2, 8, 2, ret);
	if (c != 'x')
		return 0;
	if (reader_peek(r, 2) != '{')
		return 2 + reader_number(r, 2, 16, 2, ret);
	n = reader_number(r, 3, 16, 8, ret);
	return n > 0 && reader_peek(r, 3 + n) == '}' ? n + 4 : 0;
}
