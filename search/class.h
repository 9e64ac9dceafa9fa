/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one character class of a pattern and writes it so that it does not match the end of a
 * line. Pure. */
#ifndef KODA_SEARCH_CLASS_H
#define KODA_SEARCH_CLASS_H

#include "search/reader.h"

/* As in struct syntax_options. */
struct class_how {
	bool multiline, ascii;
};

struct class_seen {
	bool crosses; /* as read, it matches the end of a line */
	bool newline; /* it matches only the end of a line */
	bool beyond;  /* it names characters that are not ASCII */
};

/* Reads the class; the reader is at its '['. Gives up on a class that cannot be written without
 * the end of a line. */
void class_read(struct pattern_reader *reader, const struct class_how *how, struct class_seen *ret);

#endif
