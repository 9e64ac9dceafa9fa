/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters what a command prints to the user's terminal. Removes what is not about the picture: the
 * terminal's title and clipboard, links with a false text, files that the terminal would show,
 * queries that make it type what is on the screen. Colours, the cursor, modes of keys and mouse
 * pass. Pure.
 *
 *	dropped   OSC, DCS, APC, PM and SOS strings; CSI ... t (window), i (printer), * y (screen's
 *	          checksum); ENQ; each also in the form of UTF-8 encoded C1 controls
 */
#ifndef KODA_CLI_ESCAPES_H
#define KODA_CLI_ESCAPES_H

#include <stddef.h>

#define ESCAPES_HELD_MAX 64 /* a longer control sequence is dropped */

struct escapes {
	enum escapes_state {
		ESCAPES_TEXT = 0,
		ESCAPES_ESC,    /* held: ESC */
		ESCAPES_C2,     /* held: 0xc2, which may begin a UTF-8 encoded C1 control */
		ESCAPES_CSI,    /* held: the sequence so far */
		ESCAPES_LONG,   /* a control sequence that is too long, until its end */
		ESCAPES_STRING, /* until BEL or ST */
		ESCAPES_STRING_ESC,
		ESCAPES_STRING_C2,
	} state;
	size_t n;
	char held[ESCAPES_HELD_MAX];
};

/*
 * Filters len bytes from in to out. They may be the same buffer if in begins ESCAPES_HELD_MAX bytes
 * after out. Returns how many bytes were written: at most len + ESCAPES_HELD_MAX.
 */
size_t escapes_filter(struct escapes *e, const char *in, size_t len, char *out);

#endif
