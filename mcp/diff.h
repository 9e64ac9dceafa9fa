/*
 * The changes between two texts, line by line, as a unified diff. Pure. Lines are escaped for a
 * person's eyes. A text that is too long to be read is shown by its beginning and end, the rest is
 * counted, and the text's `cut` is set (show/asked.h).
 */
#ifndef KODA_MCP_DIFF_H
#define KODA_MCP_DIFF_H

#include <stddef.h>

#include "mcp/text.h"

/* Adds hunks with three lines of context around each change. Adds nothing if the texts are
 * equal. */
void diff_unified(struct text *t, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len);
/* Adds all lines of one text with a sign before each, for a new file for example. */
void diff_lines(struct text *t, char sign, const void *data, size_t len);
/* Adds the lines of a shell script. */
void diff_script(struct text *t, const char *script);

#endif
