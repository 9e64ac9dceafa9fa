/*
 * What a search found as text, byte for byte as ripgrep 13 prints it: one thing after the other, with what has to stand
 * between them. Pure: knows a stream and no terminal.
 */
#ifndef KODA_CLI_SEARCH_PRINT_H
#define KODA_CLI_SEARCH_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "include/koda/sandbox.h"

enum search_names {
	SEARCH_NAMES_USUAL = 0, /* unless there is one operand, and that is a file */
	SEARCH_NAMES_NEVER,
	SEARCH_NAMES_ALWAYS,
};

struct search_style {
	bool colour;
	bool escape; /* for a person's terminal: nothing foreign may act on it */
	bool heading, line_numbers, column, byte_offset, only_matching;
	bool null;      /* a NUL behind each path */
	bool separated; /* context was asked for: '--' where lines were left out */
	enum search_names names;
	uint64_t max_columns; /* longer lines are left out; 0: none is */
	bool preview;         /* not left out, but cut, as the library does it */
};

struct search_printer {
	FILE *f;
	struct search_style style;
	const char *const *operands; /* as the user named the places; none: the current directory */
	size_t n_operands;
	/* where it is */
	bool in_file;
	unsigned place;
	char *path;
	size_t path_size;
	uint64_t line; /* the last one printed */
};

/* Print it; troubles are not for standard output and print nothing. 0, or -1 when there is no memory. */
int search_print(struct search_printer *printer, const struct koda_found *found);
void search_print_done(struct search_printer *printer);

/* The path as the user would write it, in parts: the operand, a slash where one is needed, what is below. */
struct search_name {
	const char *operand, *slash, *below;
};
struct search_name search_name(const char *const *operands, size_t n_operands,
    const struct koda_found *found);

/* One line of a listing: size, indented name, and of a directory how many files it has. */
void search_print_entry(FILE *f, const char *const *operands, size_t n_operands,
    const struct koda_found *found);

#endif
