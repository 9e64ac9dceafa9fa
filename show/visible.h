/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escapes untrusted bytes for a person's eyes: what a model names or writes is hostile. An escape
 * sequence would repaint the question that the user is about to answer, a bidi override would
 * reorder it. Pure; for every part of the program that shows something.
 */
#ifndef KODA_SHOW_VISIBLE_H
#define KODA_SHOW_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copies at most max bytes of the text, cut between characters, and replaces each invalid byte with
 * U+FFFD: JSON requires UTF-8, but names from agents need not be UTF-8. ret must have room for
 * VISIBLE_LOSSY_SIZE(max) bytes and ends with a NUL. Returns how many bytes are before it.
 */
#define VISIBLE_LOSSY_SIZE(max) (3 * (max) + 1)
size_t visible_lossy(const char *p, size_t len, size_t max, char *ret);

#define VISIBLE_MAX 16 /* bytes for one escaped character of input, and a NUL */

/*
 * Writes the first character of p to out as it must be shown: as it is, or, if it is a control,
 * bidi or invisible character, as \u{..}, or as \xNN if it is below 0x80 or not UTF-8. tabs: keep
 * tabs, which are harmless in the lines of a text. Returns how many bytes of p were used.
 */
size_t visible_escape(const uint8_t *p, size_t len, bool tabs, char out[VISIBLE_MAX],
    size_t *ret_len);

/* Takes a piece of a text that is being shown. */
typedef void visible_put_fn(void *to, const void *data, size_t len);
/* Puts text of our own, as it is. */
void visible_put_own(const char *text, visible_put_fn *put, void *to);
/* Shows all of the data, each character as visible_escape() has it. */
void visible_show(const void *data, size_t len, bool tabs, visible_put_fn *put, void *to);

/*
 * Writes len bytes as base64 to out, which must have room for VISIBLE_BASE64_LEN(len) bytes; no
 * NUL.
 */
#define VISIBLE_BASE64_LEN(len) (((len) + 2) / 3 * 4)
void visible_base64(const void *data, size_t len, char *out);

#endif
