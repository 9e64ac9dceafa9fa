/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a command was refused, one sentence per line: the same to a person at the terminal
 * and to a client of the MCP server. Pure.
 */
#ifndef KODA_SHOW_TOLD_H
#define KODA_SHOW_TOLD_H

#include <stddef.h>

#include "show/visible.h"

/* A program may try many things, too many for a person to read about. */
#define TOLD_FAILURES_MAX 8

/* What was refused, and why: a sentence that may begin with the target; "": there is none. */
struct told {
	const char *target, *detail;
};

/* Prints "koda-sandbox: 'target': detail" for each entry with a sentence, equal ones only once. */
void told_sentences(const struct told *all, size_t n, visible_put_fn *put, void *to);

#endif
