/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats what servers report about themselves as lines for a person. Pure: their objects in, text
 * out.
 */
#ifndef KODA_CLI_TOP_VIEW_H
#define KODA_CLI_TOP_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

struct top_size {
	unsigned columns, rows; /* 0: no limit */
	bool colour;
	/* ends each line: "\n", on a terminal also the sequence that clears the rest of the line */
	const char *end;
};

/* Returns how many lines were printed. */
unsigned top_view(FILE *f, const json_t *servers, const struct top_size *size);

#endif
