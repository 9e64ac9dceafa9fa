/* What servers say about themselves, as lines for a person. Pure: their objects in, text out. */
#ifndef KODA_CLI_TOP_VIEW_H
#define KODA_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

struct top_size {
	unsigned columns, rows; /* 0: as much as there is */
	bool colour;
	const char
	    *end; /* of each line: "\n", or with what a terminal needs to forget the rest of it */
};

/* The number of lines that were printed. */
unsigned top_view(FILE *f, const json_t *servers, const struct top_size *size);

#endif
