/*
 * What changes between two texts, line by line, in the unified form that people read diffs in. Pure. Lines are escaped for
 * a person's eyes; of what is too long to be read the beginning and the end are shown, the rest is counted, and the text's `cut` is
 * set (show/asked.h).
 */
#ifndef KODA_MCP_DIFF_H
#define KODA_MCP_DIFF_H

#include <stddef.h>

#include "mcp/text.h"

/* Adds hunks with three lines around each change. Nothing when the texts are equal. */
void diff_unified(struct text *t, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len);
/* All lines of one text, with a sign before each: of a file that is new, for example. */
void diff_lines(struct text *t, char sign, const void *data, size_t len);
/* The lines of a shell's script. */
void diff_script(struct text *t, const char *script);

#endif
