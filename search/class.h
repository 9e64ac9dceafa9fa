/* One character class of a pattern: read, and written so that it does not match the end of a line. Pure. */
#ifndef KODA_SEARCH_CLASS_H
#define KODA_SEARCH_CLASS_H

#include "search/reader.h"

/* As in struct syntax_options. */
struct class_how {
	bool multiline, ascii;
};

struct class_seen {
	bool crosses; /* as it was read, it matches the end of a line */
	bool newline; /* and nothing else */
	bool beyond;  /* it names what is not ASCII */
};

/* The reader is at its '['. What cannot be written without the end of a line is given up. */
void class_read(struct reader *reader, const struct class_how *how, struct class_seen *ret);

#endif
