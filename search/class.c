/* SPDX-License-Identifier: Apache-2.0 */
#include "search/class.h"

#include <string.h>

#include "shared/base/cleanup.h"

struct class
{
	const struct class_how *how;
	bool negated;
	bool newline; /* named, or within a range */
	bool beyond;  /* the same for characters that are not ASCII */
	size_t members;
};

/* Parses [:alpha:] and the like at p. Returns its length, 0 for anything else. *ret: whether it
 * does not match the end of a line. */
static size_t
posix_class(const struct pattern_reader *r, bool *ret)
{
	static const char *const safe[] = { "[:alpha:]", "[:digit:]", "[:alnum:]", "[:upper:]",
		"[:lower:]", "[:punct:]", "[:xdigit:]", "[:word:]", "[:blank:]", "[:graph:]" };
	size_t n = 2;

	*ret = false;
	for (size_t i = 0; i < N_ELEMENTS(safe); i++) {
		if (reader_begins(r, safe[i])) {
			*ret = true;
			return strlen(safe[i]);
		}
	}
	while (reader_is_alnum(reader_peek(r, n)) || reader_peek(r, n) == '^')
		n++;
	return reader_peek(r, n) == ':' && reader_peek(r, n + 1) == ']' ? n + 2 : 0;
}

/* Parses one end of a range, or a member. Returns false if it is not a single character. */
static bool
class_character(const struct pattern_reader *r, size_t at, uint32_t *ret, size_t *ret_len)
{
	struct pattern_reader there = *r;

	there.p += at;
	if (!reader_left(&there, 1))
		return false;
	if (*there.p == '\\') {
		*ret_len = reader_escape(&there, ret);
		return *ret_len > 0;
	}
	if (*there.p == '[' && strchr(":.=", reader_peek(&there, 1)) != NULL)
		return false;
	*ret_len = reader_char_len(*there.p);
	/* For a character beyond ASCII the exact value does not matter. */
	*ret = (unsigned char)*there.p;
	return reader_left(&there, *ret_len);
}

/* Handles \d and the like, at p. */
static void
class_escape(struct pattern_reader *r, struct class *class)
{
	bool safe;
	size_t n;

	class->members += 2;
	switch (reader_peek(r, 1)) {
	case 'd':
	case 'w':
	case 'h':
	case 'S':
	case 'V':
		reader_copy(r, 2);
		break;
	case 's':
		if (class->negated || class->how->multiline) {
			class->newline = true;
			reader_copy(r, 2);
			break;
		}
		/* The characters of \s without \n. \h is last: a '-' after it is literal, as it
		 * was after \s. */
		reader_put(r,
		    class->how->ascii ? "\\x0b\\f\\r\\h" : "\\x0b\\f\\r\\x85\\p{Zl}\\p{Zp}\\h");
		r->p += 2;
		break;
	case 'W':
	case 'D':
	case 'H':
	case 'v':
		class->newline = true;
		reader_copy(r, 2);
		break;
	case 'p':
	case 'P':
		n = reader_property(r, &safe);
		class->newline |= !safe;
		if (n > 0)
			reader_copy(r, n);
		else
			reader_give_up(r);
		break;
	default:
		reader_give_up(r);
	}
}

static void
class_member(struct pattern_reader *r, struct class *class)
{
	uint32_t low, high;
	size_t n, m;
	bool safe;

	if (*r->p == '[' && strchr(":.=", reader_peek(r, 1)) != NULL) {
		n = posix_class(r, &safe);
		class->members += 2;
		class->newline |= !safe;
		if (n > 0)
			reader_copy(r, n);
		else
			reader_give_up(r);
		return;
	}
	if (!class_character(r, 0, &low, &n)) {
		class_escape(r, class);
		return;
	}
	high = low;
	class->members++;
	if (reader_peek(r, n) == '-' && reader_peek(r, n + 1) != ']') {
		if (!class_character(r, n + 1, &high, &m)) {
			reader_give_up(r);
			return;
		}
		class->members++;
		n += 1 + m;
	}
	class->newline |= low <= '\n' && '\n' <= high;
	class->beyond |= low >= 0x80 || high >= 0x80;
	reader_copy(r, n);
}

static void
read_members(struct pattern_reader *r, struct class *class)
{
	reader_copy(r, class->negated ? 2 : 1);
	/* A '-' after the inserted \n would make it a range. */
	if (class->negated && !class->how->multiline)
		reader_put(r, reader_peek(r, 0) == '-' ? "\\n\\" : "\\n");
	if (reader_peek(r, 0) == ']') {
		/* If it comes first it is a member; in the output it may not come first. */
		if (reader_peek(r, 1) == '-' && reader_peek(r, 2) != ']') {
			reader_give_up(r);
			return;
		}
		reader_put(r, "\\");
		reader_copy(r, 1);
		class->members++;
	}
	while (!r->unknown && reader_peek(r, 0) != ']') {
		if (reader_left(r, 1))
			class_member(r, class);
		else
			reader_give_up(r);
	}
}

void
class_read(struct pattern_reader *r, const struct class_how *how, struct class_seen *ret)
{
	struct class class = { .how = how, .negated = reader_peek(r, 1) == '^' };

	*ret = (struct class_seen){ .crosses = false };
	/* Word boundaries written like a class. */
	if (reader_begins(r, "[[:<:]]") || reader_begins(r, "[[:>:]]")) {
		reader_give_up(r);
		return;
	}
	read_members(r, &class);
	if (r->unknown)
		return;
	reader_copy(r, 1);
	ret->crosses = class.negated || class.newline;
	ret->newline = !class.negated && class.newline && class.members == 1;
	ret->beyond = class.beyond;
	/* A class that is not negated cannot exclude a single character. */
	if (!class.negated && class.newline && !ret->newline && !how->multiline)
		reader_give_up(r);
}
