/*
 * Foreign bytes made fit for a person's eyes: what a model names or writes is hostile. An escape sequence would repaint
 * the question that the user is about to answer, a bidi override would reorder it. Pure; for every program part that shows
 * something.
 */
#ifndef KODA_SHOW_VISIBLE_H
#define KODA_SHOW_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many of the first bytes are ASCII that is shown as it is: the short cut of most text. */
size_t visible_plain(const void *data, size_t len);

/*
 * At most max bytes of the text, cut between characters, what is no character replaced by U+FFFD: JSON wants UTF-8, and
 * what agents name need not be it. Returns how many bytes ret has, a NUL behind them. ret has room for
 * VISIBLE_LOSSY_SIZE(max).
 */
#define VISIBLE_LOSSY_SIZE(max) (3 * (max) + 1)
size_t visible_lossy(const char *p, size_t len, size_t max, char *ret);

#define VISIBLE_MAX 16 /* bytes that one character of input becomes, and a NUL */

/*
 * One character of p as it is to be shown, in out: itself, or, where it is a control, bidi or invisible one, \u{..},
 * below 0x80 and where it is not UTF-8 \xNN. tabs: they are harmless in the lines of a text. Returns how many bytes of p
 * that was.
 */
size_t visible_escape(const uint8_t *p, size_t len, bool tabs, char out[VISIBLE_MAX],
    size_t *ret_len);

/* base64 of len bytes, in out, which has VISIBLE_BASE64_LEN(len) bytes. */
#define VISIBLE_BASE64_LEN(len) (((len) + 2) / 3 * 4)
void visible_base64(const void *data, size_t len, char *out);

#endif
