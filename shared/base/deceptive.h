/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only table of characters that deceive a person: a terminal acts on them instead of showing
 * them, shows nothing or a blank, or draws them onto another character. A person who approves
 * 'a<U+200B>b' must be able to see that it is not 'ab'.
 */
#ifndef KODA_SHARED_BASE_DECEPTIVE_H
#define KODA_SHARED_BASE_DECEPTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool
is_deceptive(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },       /* C0 */
		{ 0x7f, 0xa0 },       /* DEL, C1, no-break space */
		{ 0xad, 0xad },       /* soft hyphen */
		{ 0x300, 0x36f },     /* combining marks */
		{ 0x483, 0x489 },     /* combining marks, Cyrillic */
		{ 0x61c, 0x61c },     /* Arabic letter mark */
		{ 0x115f, 0x1160 },   /* Hangul fillers: invisible letters */
		{ 0x1680, 0x1680 },   /* Ogham space */
		{ 0x17b4, 0x17b5 },   /* invisible Khmer vowels */
		{ 0x180b, 0x180f },   /* Mongolian selectors and separator */
		{ 0x1ab0, 0x1aff },   /* combining marks */
		{ 0x1dc0, 0x1dff },   /* combining marks */
		{ 0x2000, 0x200f },   /* spaces, zero-width characters and marks */
		{ 0x2028, 0x202f },   /* line separators, bidi embeddings and overrides, a space */
		{ 0x205f, 0x206f },   /* a space, joiners, bidi isolates */
		{ 0x20d0, 0x20ff },   /* combining marks for symbols */
		{ 0x2800, 0x2800 },   /* Braille pattern without dots */
		{ 0x3000, 0x3000 },   /* ideographic (wide) space */
		{ 0x3164, 0x3164 },   /* Hangul filler */
		{ 0xfe00, 0xfe0f },   /* variation selectors */
		{ 0xfe20, 0xfe2f },   /* combining half marks */
		{ 0xfeff, 0xfeff },   /* byte order mark */
		{ 0xffa0, 0xffa0 },   /* half-width Hangul filler */
		{ 0xfff0, 0xfffb },   /* interlinear annotation */
		{ 0x1bca0, 0x1bca3 }, /* shorthand controls */
		{ 0x1d159, 0x1d159 }, /* invisible note head */
		{ 0x1d165, 0x1d17a }, /* musical combining marks and controls */
		{ 0xe0000, 0xe0fff }, /* tags, more selectors */
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	}
	return false;
}

#endif
