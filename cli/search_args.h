/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of fs glob, fs grep and fs tree: which there are, what they mean to the library, and
 * how results are to be shown. The letters are ripgrep's where they mean the same. Pure.
 */
#ifndef KODA_CLI_SEARCH_ARGS_H
#define KODA_CLI_SEARCH_ARGS_H

#include "cli/args.h"
#include "cli/search_print.h"

extern const struct opt_table search_grep_options, search_glob_options, search_tree_options;

/* Set by an option, or chosen by whether standard output is a terminal. */
enum search_choice {
	SEARCH_BY_OUTPUT = 0,
	SEARCH_NEVER,
	SEARCH_ALWAYS,
};

struct search_args {
	/* Except for its paths. It points into argv, or to the lists below. */
	struct koda_search_options options;
	bool type_list; /* only print the types */
	bool quiet;     /* only the exit status matters */
	enum search_choice colour, heading, line_numbers;
	struct search_style style; /* the parts that do not depend on the output */
	char **paths;              /* points into argv, ends with NULL */
	/* The strings are argv's. */
	const char **globs, **types, **types_not, **patterns;
};

/*
 * Reads the options and words after the command's name. Returns 0 with *ret filled, or -1 with one
 * sentence in why; call search_args_done() in either case.
 */
int search_args_read(enum koda_search_kind kind, const struct args *args, char **words,
    struct search_args *ret, char why[ARGS_WHY_MAX]);
void search_args_done(struct search_args *args);

/* Returns how results are shown. terminal: standard output is one; colours: it wants them. */
struct search_style search_args_style(const struct search_args *args, bool terminal, bool colours);

#endif
