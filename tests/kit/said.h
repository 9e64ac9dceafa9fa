/* SPDX-License-Identifier: Apache-2.0 */
/* What a program printed, and checks of it, which show it when they fail. */
#ifndef KODA_TESTS_KIT_SAID_H
#define KODA_TESTS_KIT_SAID_H

#include <stddef.h>

/* data ends with a NUL that len does not count. */
struct bytes {
	char *data;
	size_t len, size;
};

void append(struct bytes *b, const char *data, size_t len);
/* Reads once from *fd; at its end, closes it and sets *fd to -1. */
void drain(int *fd, struct bytes *to);

void has(const struct bytes *b, const char *what);
void has_not(const struct bytes *b, const char *what);
void is(const struct bytes *b, const char *what);

#endif
