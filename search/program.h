/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One expression, compiled by PCRE2 (JIT where there is one), and its matches within limits that no
 * pattern can exceed: steps, depth, heap, the JIT's stack. The match data and the JIT's stack are
 * allocated once.
 */
#ifndef KODA_SEARCH_PROGRAM_H
#define KODA_SEARCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* The kind of text that a program is for. */
enum program_text {
	PROGRAM_ASCII,  /* only ASCII: without UTF, several times as fast */
	PROGRAM_UTF8,   /* valid UTF-8 */
	PROGRAM_BROKEN, /* not valid UTF-8: invalid bytes match nothing; by the interpreter */
};

enum program_flags {
	/* The text is whole lines without the last one's end: a line follows its last '\n', too. */
	PROGRAM_LINES = 1 << 0,
	PROGRAM_IGNORE_CASE = 1 << 1,
	PROGRAM_DOTALL = 1 << 2,
	PROGRAM_SAME_NAMES = 1 << 3, /* groups may have the same name */
	PROGRAM_CHECK = 1 << 4,      /* only to check whether it compiles, and what is in it */
};

struct program;

/*
 * Compiles an expression. Returns a program that the caller frees with program_free(), or NULL
 * with *err set: KODA_INVALID with PCRE2's message, KODA_TOO_LARGE. skipped: bytes of the user's
 * pattern before `text`, added to the offset in the message.
 */
struct program *program_new(const char *text, size_t len, enum program_text kind, unsigned flags,
    size_t skipped, struct koda_error *err);
void program_free(struct program *program);

bool program_refers_back(const struct program *program); /* has a back reference to a group */
bool program_calls_out(const struct program *program);

/* Finds the first match that begins at `from` or later, in text of the kind that the program is
 * for. Returns 1 with *ret_start <= *ret_end, 0 if there is none, or -1 with *err set. */
int program_match(struct program *program, const char *text, size_t len, size_t from,
    size_t *ret_start, size_t *ret_end, struct koda_error *err);

#endif
