/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of a search as text, byte for byte as ripgrep 13 does: one after the other,
 * with the separators between them. Pure: knows a stream and no terminal.
 */
#ifndef KODA_CLI_SEARCH_PRINT_H
#define KODA_CLI_SEARCH_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "include/koda/sandbox.h"

enum search_names {
	SEARCH_NAMES_USUAL = 0, /* unless there is only one operand, which is a file */
	SEARCH_NAMES_NEVER,
	SEARCH_NAMES_ALWAYS,
};

struct search_style {
	bool colour;
	bool escape; /* for a person's terminal: escape untrusted text */
	bool heading, line_numbers, column, byte_offset, only_matching;
	bool null;      /* a NUL after each path */
	bool separated; /* context was requested: '--' where lines were left out */
	enum search_names names;
	uint64_t max_columns; /* longer lines are left out; 0: no limit */
	bool preview;         /* cut them as the library does, instead of leaving them out */
};

struct search_printer {
	FILE *f;
	struct search_style style;
	/* the places as the user named them; none: the current directory */
	const char *const *operands;
	size_t n_operands;
	/* the current position */
	bool in_file;
	unsigned place;
	char *path;
	size_t path_size;
	uint64_t line; /* the last line that was printed */
};

/*
 * Prints one result. Troubles print nothing: they do not belong on standard output. Returns 0, or
 * -1 when out of memory.
 */
int search_print(struct search_printer *printer, const struct koda_found *found);
void search_print_done(struct search_printer *printer);

/* The path as the user would write it, in parts: the operand, a slash if needed, what is below. */
struct search_name {
	const char *operand, *slash, *below;
};
struct search_name search_name(const char *const *operands, size_t n_operands,
    const struct koda_found *found);

/* Prints a line of a listing: size, indented name, and for a directory how many files it has. */
void search_print_entry(FILE *f, const char *const *operands, size_t n_operands,
    const struct koda_found *found);

#endif
