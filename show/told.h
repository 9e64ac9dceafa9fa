/*
 * What is told of a command that was refused something, one sentence a line: the same to a person at the terminal and to a
 * client of the MCP server. Pure.
 */
#ifndef KODA_SHOW_TOLD_H
#define KODA_SHOW_TOLD_H

#include <stddef.h>

#include "show/asked.h"

/* A program that tries many things is not all that anybody wants to read. */
#define TOLD_FAILURES_MAX 8

/* What was refused, and why: a sentence that may begin with it; "": there is none. */
struct told {
	const char *target, *detail;
};

/* "koda-sandbox: 'target': detail" for each that has a sentence, and the same one once. */
void told_sentences(const struct told *all, size_t n, asked_put_fn *put, void *to);

#endif
