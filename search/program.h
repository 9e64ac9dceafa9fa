/*
 * One expression, compiled by PCRE2 (JIT where there is one), and its matches within limits that no pattern gets past:
 * steps, depth, heap, the JIT's stack. All memory that matching takes is taken here once.
 */
#ifndef KODA_SEARCH_PROGRAM_H
#define KODA_SEARCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* What a program is for. */
enum program_text {
	PROGRAM_ASCII,  /* nothing else is in it: without UTF, several times as fast */
	PROGRAM_UTF8,   /* all of it is valid */
	PROGRAM_BROKEN, /* not all of it is: what is not matches nothing; by the interpreter */
};

enum program_flags {
	/* The text is whole lines without the last one's end: behind its last '\n' is a line, too. */
	PROGRAM_LINES = 1 << 0,
	PROGRAM_IGNORE_CASE = 1 << 1,
	PROGRAM_DOTALL = 1 << 2,
	PROGRAM_SAME_NAMES = 1 << 3, /* groups may have the same name */
	PROGRAM_CHECK = 1 << 4,      /* only to see whether it compiles, and what is in it */
};

struct program;

/* NULL with *err set: KODA_INVALID with PCRE2's words, KODA_TOO_LARGE. The byte that is pointed at is offset + skipped. */
struct program *program_new(const char *text, size_t len, enum program_text kind, unsigned flags,
    size_t skipped, struct koda_error *err);
void program_free(struct program *program);

bool program_refers_back(const struct program *program); /* to a group by its number */
bool program_calls_out(const struct program *program);

/* The first match that begins at `from` or later, in text that is what the program is for. 1 with *ret_start <= *ret_end,
 * 0, or -1 with *err set. */
int program_match(struct program *program, const char *text, size_t len, size_t from,
    size_t *ret_start, size_t *ret_end, struct koda_error *err);

#endif
