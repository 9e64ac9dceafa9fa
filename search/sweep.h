/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to every byte of every file, with the widest registers of the processor. Pure; reads
 * nothing outside of the given bytes.
 *
 * sweep_x86.c is for processors with SSE2 and, if found at run time, AVX2; sweep_portable.c for
 * others.
 */
#ifndef KODA_SEARCH_SWEEP_H
#define KODA_SEARCH_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two bytes of a text and their offsets in it. A byte is or-ed with fold before it is compared:
 * 0x20 makes both cases of a letter equal. */
struct sweep_pair {
	size_t at[2];
	uint8_t byte[2], fold[2];
};

/* Returns whether the whole text is at p, and not only two bytes of it. */
typedef bool sweep_is_fn(const void *data, const char *p);

/* Returns the first i below n where both bytes are and `is` agrees, else n. Reads text[i +
 * at[0]] and text[i + at[1]] of every i below n. */
size_t sweep_find(const char *text, size_t n, const struct sweep_pair *pair, sweep_is_fn *is,
    const void *data);

size_t sweep_count(const char *text, size_t len, char byte);

/* Returns how many bytes precede the first one that is not ASCII. */
size_t sweep_ascii(const char *text, size_t len);

struct sweep_seen {
	bool nul, high; /* contains a byte that is 0; one that is not ASCII */
};
struct sweep_seen sweep_look(const char *text, size_t len);

#endif
