/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that a change removes and adds, or that a command's script has, as a person is shown
 * them. Lines are escaped, and each begins with a sign, so none looks like our own text. A text
 * that is too long to be read is shown by its beginning and end, the rest is counted, and the page
 * is marked as cut (show/asked.h); unless the medium takes it whole.
 */
#ifndef KODA_SHOW_DIFF_H
#define KODA_SHOW_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"
#include "show/page.h"

/* Writes hunks with three lines of context around each change; nothing if the texts are equal. */
void diff_unified(struct page *page, const void *old_text, size_t old_len, const void *new_text,
    size_t new_len);
/*
 * Counts the lines that diff_unified() shows as added and as removed. Returns false if there is no
 * memory.
 */
bool diff_count(const void *old_text, size_t old_len, const void *new_text, size_t new_len,
    uint64_t *ret_added, uint64_t *ret_removed);
/*
 * Writes each replacement with the lines that it changes. lines[] has the numbers of the first
 * n_lines replacements' first lines; NULL: they are unknown.
 */
void diff_edits(struct page *page, const struct koda_edit *edits, size_t n_edits,
    const uint64_t *lines, size_t n_lines);
/* Writes all lines of a new content as added. whole: len bytes are all of it. */
void diff_added(struct page *page, const void *data, size_t len, bool whole);
/* Writes the lines of a shell script. */
void diff_script(struct page *page, const char *script);

#endif
