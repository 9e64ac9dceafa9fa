/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/escapes.h"

#include <stdbool.h>
#include <string.h>

#define BEL '\a'
#define ENQ '\005'
#define CAN '\030'
#define SUB '\032'
#define ESC '\033'

/* The second byte of the two forms of a C1 control: ESC and this, or 0xc2 and this + 0x40. */
static bool
begins_string(unsigned char c)
{
	return c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X';
}

static bool
is_final(unsigned char c)
{
	return c >= 0x40 && c <= 0x7e;
}

/* A complete control sequence is held: must it be dropped? */
static bool
is_dropped(const struct escapes *e)
{
	char final = e->held[e->n - 1];

	return final == 't' || final == 'i' || (final == 'y' && e->held[e->n - 2] == '*');
}

static void
hold(struct escapes *e, enum escapes_state state, char c)
{
	e->held[e->n++] = c;
	e->state = state;
}

static size_t
release(struct escapes *e, char *out)
{
	size_t n = e->n;

	memcpy(out, e->held, n);
	e->n = 0;
	e->state = ESCAPES_TEXT;
	return n;
}

static void
drop(struct escapes *e, enum escapes_state state)
{
	e->n = 0;
	e->state = state;
}

/* Returns how many bytes it wrote to out. */
static size_t
text(struct escapes *e, char c, char *out)
{
	if (c == ESC) {
		hold(e, ESCAPES_ESC, c);
		return 0;
	}
	if (c == '\xc2') {
		hold(e, ESCAPES_C2, c);
		return 0;
	}
	if (c == ENQ)
		return 0;
	*out = c;
	return 1;
}

/* Handles the byte c after ESC, or after 0xc2; `as` is the same byte in the form after ESC. */
static size_t
introduced(struct escapes *e, char c, char as, char *out)
{
	size_t n;

	if (as == '[') {
		hold(e, ESCAPES_CSI, c);
		return 0;
	}
	if (begins_string((unsigned char)as)) {
		drop(e, ESCAPES_STRING);
		return 0;
	}
	n = release(e, out);
	return n + text(e, c, out + n);
}

static size_t
sequence(struct escapes *e, char c, char *out)
{
	/* These end it without effect, and ESC begins another one. */
	if (c == CAN || c == SUB || c == ESC) {
		drop(e, ESCAPES_TEXT);
		return text(e, c, out);
	}
	if (e->n == sizeof(e->held)) {
		drop(e, is_final((unsigned char)c) ? ESCAPES_TEXT : ESCAPES_LONG);
		return 0;
	}
	hold(e, ESCAPES_CSI, c);
	if (!is_final((unsigned char)c))
		return 0;
	if (is_dropped(e)) {
		drop(e, ESCAPES_TEXT);
		return 0;
	}
	return release(e, out);
}

size_t
escapes_filter(struct escapes *e, const char *in, size_t len, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = in[i];

		switch (e->state) {
		case ESCAPES_TEXT:
			n += text(e, c, out + n);
			break;
		case ESCAPES_ESC:
			n += introduced(e, c, c, out + n);
			break;
		case ESCAPES_C2:
			/* 0x80 to 0x9f; with any other byte after 0xc2 it is a character. */
			n += introduced(e, c, (c & 0xe0) == 0x80 ? (char)(c - 0x40) : ' ', out + n);
			break;
		case ESCAPES_CSI:
			n += sequence(e, c, out + n);
			break;
		case ESCAPES_LONG:
			if (is_final((unsigned char)c) || c == CAN || c == SUB)
				drop(e, ESCAPES_TEXT);
			break;
		case ESCAPES_STRING:
			if (c == BEL || c == CAN || c == SUB)
				drop(e, ESCAPES_TEXT);
			else if (c == ESC)
				e->state = ESCAPES_STRING_ESC;
			else if (c == '\xc2')
				e->state = ESCAPES_STRING_C2;
			break;
		case ESCAPES_STRING_ESC:
			/* ESC ends the string whatever follows; '\' completes ST. */
			drop(e, ESCAPES_TEXT);
			if (c != '\\') {
				hold(e, ESCAPES_ESC, ESC);
				n += introduced(e, c, c, out + n);
			}
			break;
		case ESCAPES_STRING_C2:
			if (c == '\x9c')
				drop(e, ESCAPES_TEXT);
			else if (c != '\xc2')
				e->state = ESCAPES_STRING;
			break;
		}
	}
	return n;
}
