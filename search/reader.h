/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of a pattern from its beginning while another one is written: shared by the
 * reading of items (syntax.c) and of classes (class.c). Pure.
 */
#ifndef KODA_SEARCH_READER_H
#define KODA_SEARCH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pattern_reader {
	const char *p, *end;
	char *out; /* the caller's: READER_GROWTH times as long as the input */
	size_t out_len;
	bool unknown; /* given up: nothing more is read */
};

/* The most output bytes for one input byte: "\s" in a class. */
#define READER_GROWTH 16

bool reader_left(const struct pattern_reader *reader, size_t n);
/* Returns the byte at distance `i`; 0 beyond the end. */
char reader_peek(const struct pattern_reader *reader, size_t i);
bool reader_begins(const struct pattern_reader *reader, const char *text);
/* Append text to the output; move n bytes from the input to the output. */
void reader_put(struct pattern_reader *reader, const char *text);
void reader_copy(struct pattern_reader *reader, size_t n);
void reader_give_up(struct pattern_reader *reader);

/* Parses an escape that stands for one character. Returns its length, 0 for any other escape.
 * *ret: the code point. */
size_t reader_escape(const struct pattern_reader *reader, uint32_t *ret);
/* Parses \p or \P. Returns its length, 0 if that is unclear. *ret: whether it never matches the
 * end of a line. */
size_t reader_property(const struct pattern_reader *reader, bool *ret);
/* Parses at most max digits at distance `at`. *ret: the number. Returns the number of digits. */
size_t reader_number(const struct pattern_reader *reader, size_t at, unsigned base, size_t max,
    uint32_t *ret);

/* ASCII only, independent of the locale. */
bool reader_is_digit(char c);
bool reader_is_alnum(char c);
/* Returns the length of the character that begins with this byte, in a pattern of valid UTF-8. */
size_t reader_char_len(char c);

#endif
