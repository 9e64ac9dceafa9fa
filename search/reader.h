/*
 * The text of a pattern, read from its beginning while another is written: what both the reading of items (syntax.c) and of
 * classes (class.c) are made of. Pure.
 */
#ifndef KODA_SEARCH_READER_H
#define KODA_SEARCH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
	const char *p, *end;
	char *out; /* the caller's: READER_GROWTH times as long as what is read */
	size_t out_len;
	bool unknown; /* given up: there is nothing more to read */
};

/* The most that one byte becomes: "\s" in a class. */
#define READER_GROWTH 16

bool reader_left(const struct reader *reader, size_t n);
/* The byte `i` further on; 0 behind the end. */
char reader_peek(const struct reader *reader, size_t i);
bool reader_begins(const struct reader *reader, const char *text);
/* Write; write what is read. */
void reader_put(struct reader *reader, const char *text);
void reader_copy(struct reader *reader, size_t n);
void reader_give_up(struct reader *reader);

/* An escape that is one character: how long it is, 0 for any other. *ret: the code point. */
size_t reader_escape(const struct reader *reader, uint32_t *ret);
/* \p or \P: how long it is, 0 when that is not clear. *ret: no character of it is the end of a line. */
size_t reader_property(const struct reader *reader, bool *ret);
/* From `at` on, at most max digits. *ret: the number. Returns how many. */
size_t reader_number(const struct reader *reader, size_t at, unsigned base, size_t max,
    uint32_t *ret);

/* ASCII alone, whatever the locale. */
bool reader_is_digit(char c);
bool reader_is_alnum(char c);
/* Of the character that begins with this byte, in a pattern that is valid UTF-8. */
size_t reader_char_len(char c);

#endif
