/*
 * The options of fs glob, fs grep and fs tree: which there are, what they ask of the library, and how what is found is
 * to be shown. The letters are ripgrep's where they mean the same. Pure.
 */
#ifndef KODA_CLI_SEARCH_ARGS_H
#define KODA_CLI_SEARCH_ARGS_H

#include "cli/args.h"
#include "cli/search_print.h"

extern const struct opt_table search_grep_options, search_glob_options, search_tree_options;

/* Said by an option, or left to what standard output is. */
enum search_choice {
	SEARCH_BY_OUTPUT = 0,
	SEARCH_NEVER,
	SEARCH_ALWAYS,
};

struct search_args {
	/* But its paths. What it points to is argv's, or below. */
	struct koda_search_options options;
	bool type_list; /* only tell the types */
	bool quiet;     /* only the status counts */
	enum search_choice colour, heading, line_numbers;
	struct search_style style; /* what does not depend on the output */
	char **paths;              /* argv's, ends with NULL */
	/* argv's strings */
	const char **globs, **types, **types_not, **patterns;
};

/* What was given behind the command's name. 0 with *ret filled (search_args_done() it in either case), or -1 with one
 * sentence in why. */
int search_args_read(enum koda_search_kind kind, const struct args *args, char **words,
    struct search_args *ret, char why[ARGS_WHY_MAX]);
void search_args_done(struct search_args *args);

/* How it is shown where standard output is a terminal, or not; colours: it wants them. */
struct search_style search_args_style(const struct search_args *args, bool terminal, bool colours);

#endif
