/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search_args.h"

#include <stdlib.h>
#include <string.h>

enum search_opt {
	/* what is searched */
	SEARCH_OPT_GLOB,
	SEARCH_OPT_IGLOB,
	SEARCH_OPT_GLOB_IGNORE_CASE,
	SEARCH_OPT_TYPE,
	SEARCH_OPT_TYPE_NOT,
	SEARCH_OPT_HIDDEN,
	SEARCH_OPT_NO_IGNORE,
	SEARCH_OPT_NO_IGNORE_VCS,
	SEARCH_OPT_NO_IGNORE_DOT,
	SEARCH_OPT_NO_IGNORE_EXCLUDE,
	SEARCH_OPT_NO_IGNORE_GLOBAL,
	SEARCH_OPT_NO_IGNORE_PARENT,
	SEARCH_OPT_NO_REQUIRE_GIT,
	SEARCH_OPT_UNRESTRICTED,
	SEARCH_OPT_MAX_DEPTH,
	SEARCH_OPT_MOUNTS,
	SEARCH_OPT_ONE_FILE_SYSTEM,
	SEARCH_OPT_LIMIT,
	/* how it is printed */
	SEARCH_OPT_NULL,
	SEARCH_OPT_COLOUR,
	SEARCH_OPT_QUIET,
	/* glob */
	SEARCH_OPT_NAME_IGNORE_CASE,
	SEARCH_OPT_NEWEST,
	/* grep: what matches */
	SEARCH_OPT_REGEXP,
	SEARCH_OPT_FIXED,
	SEARCH_OPT_IGNORE_CASE,
	SEARCH_OPT_SMART_CASE,
	SEARCH_OPT_CASE_SENSITIVE,
	SEARCH_OPT_WORD,
	SEARCH_OPT_WHOLE_LINE,
	SEARCH_OPT_INVERT,
	SEARCH_OPT_MULTILINE,
	SEARCH_OPT_DOTALL,
	SEARCH_OPT_TEXT,
	SEARCH_OPT_MAX_COUNT,
	/* grep: what is printed of it */
	SEARCH_OPT_COUNT,
	SEARCH_OPT_COUNT_MATCHES,
	SEARCH_OPT_FILES,
	SEARCH_OPT_FILES_WITHOUT,
	SEARCH_OPT_ONLY_MATCHING,
	SEARCH_OPT_AFTER,
	SEARCH_OPT_BEFORE,
	SEARCH_OPT_CONTEXT,
	SEARCH_OPT_LINE_NUMBER,
	SEARCH_OPT_NO_LINE_NUMBER,
	SEARCH_OPT_COLUMN,
	SEARCH_OPT_BYTE_OFFSET,
	SEARCH_OPT_WITH_FILENAME,
	SEARCH_OPT_NO_FILENAME,
	SEARCH_OPT_HEADING,
	SEARCH_OPT_NO_HEADING,
	SEARCH_OPT_MAX_COLUMNS,
	SEARCH_OPT_PREVIEW,
	SEARCH_OPT_TYPE_LIST,
	N_SEARCH_OPTS,
};

_Static_assert(N_SEARCH_OPTS <= 64, "a bit for each in opt_table.allowed");

/* clang-format off */
static const struct opt_spec specs[N_SEARCH_OPTS] = {
	[SEARCH_OPT_GLOB]     = { "--glob", 'g', "GLOB", "only files that match; '!GLOB' leaves them out" },
	[SEARCH_OPT_IGLOB]    = { "--iglob", 0, "GLOB", "the same, ignoring case" },
	[SEARCH_OPT_GLOB_IGNORE_CASE] = { "--glob-case-insensitive", 0, NULL, "treat each --glob as an --iglob" },
	[SEARCH_OPT_TYPE]     = { "--type", 't', "TYPE", "only files of that type: c, py, rust ..." },
	[SEARCH_OPT_TYPE_NOT] = { "--type-not", 'T', "TYPE", "no files of that type" },
	[SEARCH_OPT_HIDDEN]   = { "--hidden", '.', NULL, "include names that begin with a dot" },
	[SEARCH_OPT_NO_IGNORE] = { "--no-ignore", 0, NULL, "include what ignore files name" },
	[SEARCH_OPT_NO_IGNORE_VCS] = { "--no-ignore-vcs", 0, NULL, "... what git's ignore files name" },
	[SEARCH_OPT_NO_IGNORE_DOT] = { "--no-ignore-dot", 0, NULL, "... what .ignore and .rgignore name" },
	[SEARCH_OPT_NO_IGNORE_EXCLUDE] = { "--no-ignore-exclude", 0, NULL, "... what .git/info/exclude names" },
	[SEARCH_OPT_NO_IGNORE_GLOBAL] = { "--no-ignore-global", 0, NULL, "... what git's core.excludesFile names" },
	[SEARCH_OPT_NO_IGNORE_PARENT] = { "--no-ignore-parent", 0, NULL, "... what ignore files further up name" },
	[SEARCH_OPT_NO_REQUIRE_GIT] = { "--no-require-git", 0, NULL, "obey git's ignore files outside of repositories, too" },
	[SEARCH_OPT_UNRESTRICTED] = { "--unrestricted", 'u', NULL, "--no-ignore; given twice also --hidden" },
	[SEARCH_OPT_MAX_DEPTH] = { "--max-depth", 'd', "N", "descend at most N directories" },
	[SEARCH_OPT_MOUNTS]   = { "--mounts", 0, NULL, "include what is mounted below" },
	[SEARCH_OPT_ONE_FILE_SYSTEM] = { "--one-file-system", 0, NULL, "leave out what is mounted below; the default" },
	[SEARCH_OPT_LIMIT]    = { "--limit", 0, "N", "stop after N results" },
	[SEARCH_OPT_NULL]     = { "--null", '0', NULL, "print a NUL after each path" },
	[SEARCH_OPT_COLOUR]   = { "--color", 0, "WHEN", "auto, always or never" },
	[SEARCH_OPT_QUIET]    = { "--quiet", 'q', NULL, "print nothing; the status is the answer" },
	[SEARCH_OPT_NAME_IGNORE_CASE] = { "--ignore-case", 'i', NULL, "ignore case" },
	[SEARCH_OPT_NEWEST]   = { "--newest", 0, NULL, "print the last changed file first" },
	[SEARCH_OPT_REGEXP]   = { "--regexp", 'e', "REGEX", "the pattern, instead of the first word; may be repeated" },
	[SEARCH_OPT_FIXED]    = { "--fixed-strings", 'F', NULL, "the patterns are text, not regular expressions" },
	[SEARCH_OPT_IGNORE_CASE] = { "--ignore-case", 'i', NULL, "ignore case" },
	[SEARCH_OPT_SMART_CASE] = { "--smart-case", 'S', NULL, "ignore case unless the pattern has an upper-case letter" },
	[SEARCH_OPT_CASE_SENSITIVE] = { "--case-sensitive", 's', NULL, "never ignore case; the default" },
	[SEARCH_OPT_WORD]     = { "--word-regexp", 'w', NULL, "match whole words only" },
	[SEARCH_OPT_WHOLE_LINE] = { "--line-regexp", 'x', NULL, "match whole lines only" },
	[SEARCH_OPT_INVERT]   = { "--invert-match", 'v', NULL, "print the lines that do not match" },
	[SEARCH_OPT_MULTILINE] = { "--multiline", 'U', NULL, "a match may span several lines" },
	[SEARCH_OPT_DOTALL]   = { "--multiline-dotall", 0, NULL, "with --multiline: '.' matches the end of a line, too" },
	[SEARCH_OPT_TEXT]     = { "--text", 'a', NULL, "search binary files like any other" },
	[SEARCH_OPT_MAX_COUNT] = { "--max-count", 'm', "N", "print at most N lines of each file" },
	[SEARCH_OPT_COUNT]    = { "--count", 'c', NULL, "print how many lines of each file match" },
	[SEARCH_OPT_COUNT_MATCHES] = { "--count-matches", 0, NULL, "print how many matches each file has" },
	[SEARCH_OPT_FILES]    = { "--files-with-matches", 'l', NULL, "print the files with a match" },
	[SEARCH_OPT_FILES_WITHOUT] = { "--files-without-match", 'L', NULL, "print the files without a match" },
	[SEARCH_OPT_ONLY_MATCHING] = { "--only-matching", 'o', NULL, "print the matches, not their lines" },
	[SEARCH_OPT_AFTER]    = { "--after-context", 'A', "N", "print N lines after each match, too" },
	[SEARCH_OPT_BEFORE]   = { "--before-context", 'B', "N", "print N lines before each match, too" },
	[SEARCH_OPT_CONTEXT]  = { "--context", 'C', "N", "both" },
	[SEARCH_OPT_LINE_NUMBER] = { "--line-number", 'n', NULL, "print line numbers; the default on a terminal" },
	[SEARCH_OPT_NO_LINE_NUMBER] = { "--no-line-number", 'N', NULL, "print no line numbers" },
	[SEARCH_OPT_COLUMN]   = { "--column", 0, NULL, "print where in the line the first match begins, in bytes from 1" },
	[SEARCH_OPT_BYTE_OFFSET] = { "--byte-offset", 'b', NULL, "print where in the file it is, in bytes from 0" },
	[SEARCH_OPT_WITH_FILENAME] = { "--with-filename", 'H', NULL, "print the path, also of a single file" },
	[SEARCH_OPT_NO_FILENAME] = { "--no-filename", 'I', NULL, "print no path" },
	[SEARCH_OPT_HEADING]  = { "--heading", 0, NULL, "print the path on a line of its own; the default on a terminal" },
	[SEARCH_OPT_NO_HEADING] = { "--no-heading", 0, NULL, "print the path in each line" },
	[SEARCH_OPT_MAX_COLUMNS] = { "--max-columns", 'M', "N", "for lines longer than N bytes print only that they match" },
	[SEARCH_OPT_PREVIEW]  = { "--max-columns-preview", 0, NULL, "with --max-columns: print N bytes around the first match" },
	[SEARCH_OPT_TYPE_LIST] = { "--type-list", 0, NULL, "print the known types and their globs" },
};
/* clang-format on */

#define BIT(opt)       ((uint64_t)1 << (opt))
#define FROM_TO(a, b)  (BIT(b) - BIT(a) + BIT(b))
#define OPTS_SELECTION FROM_TO(SEARCH_OPT_GLOB, SEARCH_OPT_LIMIT)
#define OPTS_GLOB      FROM_TO(SEARCH_OPT_NAME_IGNORE_CASE, SEARCH_OPT_NEWEST)
#define OPTS_GREP      FROM_TO(SEARCH_OPT_REGEXP, SEARCH_OPT_TYPE_LIST)
#define OPTS_PATHS     (BIT(SEARCH_OPT_NULL) | BIT(SEARCH_OPT_COLOUR) | BIT(SEARCH_OPT_QUIET))

const struct opt_table search_grep_options = { specs, N_SEARCH_OPTS,
	OPTS_SELECTION | OPTS_PATHS | OPTS_GREP };
const struct opt_table search_glob_options = { specs, N_SEARCH_OPTS,
	OPTS_SELECTION | OPTS_PATHS | OPTS_GLOB };
const struct opt_table search_tree_options = { specs, N_SEARCH_OPTS, OPTS_SELECTION };

/*
 * The library's maximum. Lines longer than KODA_SEARCH_COLUMNS are rarely searched for, but a
 * program that reads a pipe wants them whole.
 */
#define COLUMNS_MAX (64u << 10)
/* The user can end it earlier with Ctrl-C. */
#define TIMEOUT_MS (24u * 3600 * 1000)

/* Options that replace each other: the last one given counts. */
struct search_reading {
	const struct args *args;
	struct search_args *ret;
	char *why;
	size_t n_iglobs;
	unsigned unrestricted;
	enum { CASE_EXACT, CASE_IGNORE, CASE_SMART } letters;
	enum { AT_ANY, AT_WORD, AT_LINE } bounds;
	enum { COUNT_NOTHING, COUNT_LINES, COUNT_MATCHES } count;
	enum { TELL_LINES, TELL_FILES, TELL_FILES_WITHOUT } tell;
	bool both; /* the last of -A, -B and -C was -C */
};

static int
read_count(struct search_reading *r, size_t opt, const char *value, uint64_t min, uint64_t max,
    uint64_t *ret)
{
	return args_number(specs[opt].name, value, "a number", min, max, ret, r->why);
}

static int
read_unsigned(struct search_reading *r, size_t opt, const char *value, unsigned min, unsigned max,
    unsigned *ret)
{
	uint64_t number;

	if (read_count(r, opt, value, min, max, &number) < 0)
		return -1;
	*ret = (unsigned)number;
	return 0;
}

/* As in ripgrep, -C cancels -A and -B, and each of these cancels -C. */
static int
read_context(struct search_reading *r, size_t opt, const char *value)
{
	struct koda_search_options *options = &r->ret->options;
	unsigned lines;

	if (read_unsigned(r, opt, value, 0, UINT32_MAX, &lines) < 0)
		return -1;
	if (opt == SEARCH_OPT_CONTEXT || r->both)
		options->before = options->after = 0;
	if (opt != SEARCH_OPT_AFTER)
		options->before = lines;
	if (opt != SEARCH_OPT_BEFORE)
		options->after = lines;
	r->both = opt == SEARCH_OPT_CONTEXT;
	return 0;
}

static int
read_colour(struct search_reading *r, const char *value)
{
	static const struct {
		const char *name;
		enum search_choice choice;
	} names[] = {
		{ "auto", SEARCH_BY_OUTPUT },
		{ "always", SEARCH_ALWAYS },
		{ "never", SEARCH_NEVER },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i].name, value) == 0) {
			r->ret->colour = names[i].choice;
			return 0;
		}
	}
	return args_fail(r->why, "--color needs auto, always or never, not '%s'", value);
}

static int
add_glob(struct search_reading *r, const char *glob)
{
	r->ret->globs[r->ret->options.n_globs++] = glob;
	return 0;
}

/* Reads the options that only set a flag of the library. Returns 1 if it is not one of these. */
static int
read_flag(struct search_reading *r, size_t opt)
{
	static const unsigned flags[N_SEARCH_OPTS] = {
		[SEARCH_OPT_GLOB_IGNORE_CASE] = KODA_SEARCH_GLOB_IGNORE_CASE,
		[SEARCH_OPT_HIDDEN] = KODA_SEARCH_HIDDEN,
		[SEARCH_OPT_NO_IGNORE] = KODA_SEARCH_NO_IGNORE | KODA_SEARCH_NO_PARENTS,
		[SEARCH_OPT_NO_IGNORE_VCS] =
		    KODA_SEARCH_NO_GITIGNORE | KODA_SEARCH_NO_EXCLUDE | KODA_SEARCH_NO_GLOBAL,
		[SEARCH_OPT_NO_IGNORE_DOT] = KODA_SEARCH_NO_DOT_IGNORE,
		[SEARCH_OPT_NO_IGNORE_EXCLUDE] = KODA_SEARCH_NO_EXCLUDE,
		[SEARCH_OPT_NO_IGNORE_GLOBAL] = KODA_SEARCH_NO_GLOBAL,
		[SEARCH_OPT_NO_IGNORE_PARENT] = KODA_SEARCH_NO_PARENTS,
		[SEARCH_OPT_NO_REQUIRE_GIT] = KODA_SEARCH_NO_REQUIRE_GIT,
		[SEARCH_OPT_MOUNTS] = KODA_SEARCH_MOUNTS,
		[SEARCH_OPT_NAME_IGNORE_CASE] = KODA_SEARCH_GLOB_IGNORE_CASE,
		[SEARCH_OPT_NEWEST] = KODA_SEARCH_NEWEST,
		[SEARCH_OPT_FIXED] = KODA_SEARCH_FIXED,
		[SEARCH_OPT_INVERT] = KODA_SEARCH_INVERT,
		[SEARCH_OPT_MULTILINE] = KODA_SEARCH_MULTILINE,
		[SEARCH_OPT_DOTALL] = KODA_SEARCH_DOTALL,
		[SEARCH_OPT_TEXT] = KODA_SEARCH_TEXT,
	};

	if (flags[opt] == 0)
		return 1;
	r->ret->options.flags |= flags[opt];
	return 0;
}

/* Reads the options that choose files. Returns 1 if it is not one of these. */
static int
read_selection(struct search_reading *r, size_t opt, const char *value)
{
	struct koda_search_options *options = &r->ret->options;

	switch (opt) {
	case SEARCH_OPT_IGLOB:
		r->n_iglobs++;
		return add_glob(r, value);
	case SEARCH_OPT_GLOB:
		return add_glob(r, value);
	case SEARCH_OPT_TYPE:
		r->ret->types[options->n_types++] = value;
		return 0;
	case SEARCH_OPT_TYPE_NOT:
		r->ret->types_not[options->n_types_not++] = value;
		return 0;
	case SEARCH_OPT_UNRESTRICTED:
		r->unrestricted++;
		return 0;
	case SEARCH_OPT_MAX_DEPTH:
		return read_unsigned(r, opt, value, 1, UINT32_MAX, &options->max_depth);
	case SEARCH_OPT_ONE_FILE_SYSTEM:
		options->flags &= ~(unsigned)KODA_SEARCH_MOUNTS;
		return 0;
	case SEARCH_OPT_LIMIT:
		return read_count(r, opt, value, 1, INT64_MAX, &options->limit);
	default:
		return 1;
	}
}

/* Reads the options that choose lines. Returns 1 if it is not one of these. */
static int
read_matching(struct search_reading *r, size_t opt, const char *value)
{
	struct koda_search_options *options = &r->ret->options;

	switch (opt) {
	case SEARCH_OPT_REGEXP:
		r->ret->patterns[options->n_patterns++] = value;
		return 0;
	case SEARCH_OPT_IGNORE_CASE:
		r->letters = CASE_IGNORE;
		return 0;
	case SEARCH_OPT_SMART_CASE:
		r->letters = CASE_SMART;
		return 0;
	case SEARCH_OPT_CASE_SENSITIVE:
		r->letters = CASE_EXACT;
		return 0;
	case SEARCH_OPT_WORD:
		r->bounds = AT_WORD;
		return 0;
	case SEARCH_OPT_WHOLE_LINE:
		r->bounds = AT_LINE;
		return 0;
	case SEARCH_OPT_MAX_COUNT:
		return read_count(r, opt, value, 1, INT64_MAX, &options->max_per_file);
	default:
		return 1;
	}
}

/* Reads the options that choose what is printed. Returns 1 if it is not one of these. */
static int
read_telling(struct search_reading *r, size_t opt, const char *value)
{
	struct search_args *ret = r->ret;

	switch (opt) {
	case SEARCH_OPT_NULL:
		ret->style.null = true;
		break;
	case SEARCH_OPT_COLOUR:
		return read_colour(r, value);
	case SEARCH_OPT_QUIET:
		ret->quiet = true;
		break;
	case SEARCH_OPT_COUNT:
		r->count = COUNT_LINES;
		break;
	case SEARCH_OPT_COUNT_MATCHES:
		r->count = COUNT_MATCHES;
		break;
	case SEARCH_OPT_FILES:
		r->tell = TELL_FILES;
		break;
	case SEARCH_OPT_FILES_WITHOUT:
		r->tell = TELL_FILES_WITHOUT;
		break;
	case SEARCH_OPT_ONLY_MATCHING:
		ret->style.only_matching = true;
		break;
	case SEARCH_OPT_AFTER:
	case SEARCH_OPT_BEFORE:
	case SEARCH_OPT_CONTEXT:
		return read_context(r, opt, value);
	case SEARCH_OPT_LINE_NUMBER:
		ret->line_numbers = SEARCH_ALWAYS;
		break;
	case SEARCH_OPT_NO_LINE_NUMBER:
		ret->line_numbers = SEARCH_NEVER;
		break;
	case SEARCH_OPT_COLUMN:
		ret->style.column = true;
		break;
	case SEARCH_OPT_BYTE_OFFSET:
		ret->style.byte_offset = true;
		break;
	case SEARCH_OPT_WITH_FILENAME:
		ret->style.names = SEARCH_NAMES_ALWAYS;
		break;
	case SEARCH_OPT_NO_FILENAME:
		ret->style.names = SEARCH_NAMES_NEVER;
		break;
	case SEARCH_OPT_HEADING:
		ret->heading = SEARCH_ALWAYS;
		break;
	case SEARCH_OPT_NO_HEADING:
		ret->heading = SEARCH_NEVER;
		break;
	case SEARCH_OPT_MAX_COLUMNS:
		return read_count(r, opt, value, 0, UINT32_MAX, &ret->style.max_columns);
	case SEARCH_OPT_PREVIEW:
		ret->style.preview = true;
		break;
	case SEARCH_OPT_TYPE_LIST:
		ret->type_list = true;
		break;
	default:
		break;
	}
	return 0;
}

static int
settle_selection(struct search_reading *r)
{
	struct koda_search_options *options = &r->ret->options;

	if (r->unrestricted > 2)
		return args_fail(r->why,
		    "-u may be given at most twice: use --text to search binary files");
	if (r->unrestricted > 0)
		options->flags |= KODA_SEARCH_NO_IGNORE | KODA_SEARCH_NO_PARENTS;
	if (r->unrestricted > 1)
		options->flags |= KODA_SEARCH_HIDDEN;
	/* One rule on case applies to all globs of a search. */
	if (r->n_iglobs > 0 && r->n_iglobs < options->n_globs &&
	    (options->flags & KODA_SEARCH_GLOB_IGNORE_CASE) == 0)
		return args_fail(r->why,
		    "--iglob cannot be combined with a case-sensitive --glob: use --glob-case-insensitive for all");
	if (r->n_iglobs > 0)
		options->flags |= KODA_SEARCH_GLOB_IGNORE_CASE;
	return 0;
}

/*
 * Returns what to print, at most one of these, in ripgrep's order: nothing, counts, files, lines.
 */
static unsigned
telling_flags(const struct search_reading *r)
{
	const struct search_args *ret = r->ret;
	bool inverted = ret->options.flags & KODA_SEARCH_INVERT;
	bool of_matches = r->count == COUNT_MATCHES || ret->style.only_matching ||
	    ret->options.flags & KODA_SEARCH_MULTILINE;

	if (r->count != COUNT_NOTHING && !ret->quiet)
		return of_matches && !inverted ? KODA_SEARCH_COUNT_MATCHES : KODA_SEARCH_COUNT;
	if (r->tell == TELL_FILES_WITHOUT)
		return KODA_SEARCH_FILES_WITHOUT;
	return r->tell == TELL_FILES || ret->quiet ? KODA_SEARCH_FILES : 0;
}

static void
settle_grep(struct search_reading *r)
{
	struct koda_search_options *options = &r->ret->options;
	struct search_style *style = &r->ret->style;

	if (r->letters != CASE_EXACT)
		options->flags |=
		    r->letters == CASE_SMART ? KODA_SEARCH_SMART_CASE : KODA_SEARCH_IGNORE_CASE;
	if (r->bounds != AT_ANY)
		options->flags |= r->bounds == AT_WORD ? KODA_SEARCH_WORD : KODA_SEARCH_WHOLE_LINE;
	options->flags |= telling_flags(r);
	style->separated = options->before > 0 || options->after > 0;
	options->max_columns = COLUMNS_MAX;
	if (style->preview && style->max_columns > 0 && style->max_columns < COLUMNS_MAX)
		options->max_columns = (unsigned)style->max_columns;
}

static int
read_words(struct search_reading *r, char **words)
{
	struct search_args *ret = r->ret;
	bool grep = ret->options.kind == KODA_SEARCH_GREP;

	ret->paths = words;
	if (ret->options.kind == KODA_SEARCH_TREE || ret->type_list ||
	    (grep && ret->options.n_patterns > 0))
		return 0;
	if (words[0] == NULL)
		return args_fail(r->why,
		    grep ? "fs grep needs a REGEX" : "fs glob needs a PATTERN");
	if (grep)
		ret->patterns[ret->options.n_patterns++] = words[0];
	else
		ret->globs[ret->options.n_globs++] = words[0];
	ret->paths = words + 1;
	return 0;
}

static int
allocate(struct search_args *ret, size_t n, char why[ARGS_WHY_MAX])
{
	const char ***const lists[] = { &ret->globs, &ret->types, &ret->types_not, &ret->patterns };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		*lists[i] = calloc(n, sizeof(**lists[i]));
		if (*lists[i] == NULL)
			return args_fail(why, "out of memory");
	}
	ret->options.globs = ret->globs;
	ret->options.types = ret->types;
	ret->options.types_not = ret->types_not;
	ret->options.patterns = ret->patterns;
	return 0;
}

static int
read_option(struct search_reading *r, const struct opt_given *given)
{
	int status = read_flag(r, given->opt);

	if (status > 0)
		status = read_selection(r, given->opt, given->value);
	if (status > 0)
		status = read_matching(r, given->opt, given->value);
	return status > 0 ? read_telling(r, given->opt, given->value) : status;
}

int
search_args_read(enum koda_search_kind kind, const struct args *args, char **words,
    struct search_args *ret, char why[ARGS_WHY_MAX])
{
	struct search_reading r = { .args = args, .ret = ret, .why = why };

	*ret = (struct search_args){ .options.kind = kind };
	/* Each option can add one entry to a list, and so can the first word. */
	if (allocate(ret, args->n_own_given + 1, why) < 0)
		return -1;
	/* The pattern of glob comes before its -g: the last glob that matches decides. */
	if (kind == KODA_SEARCH_GLOB && read_words(&r, words) < 0)
		return -1;
	for (size_t i = 0; i < args->n_own_given; i++) {
		if (read_option(&r, &args->own_given[i]) < 0)
			return -1;
	}
	if (kind != KODA_SEARCH_GLOB && read_words(&r, words) < 0)
		return -1;
	if (settle_selection(&r) < 0)
		return -1;
	if (kind == KODA_SEARCH_GREP)
		settle_grep(&r);
	ret->options.timeout_ms = args->timeout_ms > 0 ? args->timeout_ms : TIMEOUT_MS;
	/* Results that are printed as they come use no memory. */
	if (ret->options.limit == 0 && kind != KODA_SEARCH_TREE &&
	    (ret->options.flags & KODA_SEARCH_NEWEST) == 0)
		ret->options.limit = INT64_MAX;
	return 0;
}

void
search_args_done(struct search_args *args)
{
	free(args->globs);
	free(args->types);
	free(args->types_not);
	free(args->patterns);
	args->globs = args->types = args->types_not = args->patterns = NULL;
}

struct search_style
search_args_style(const struct search_args *args, bool terminal, bool colours)
{
	struct search_style style = args->style;

	style.escape = terminal;
	style.colour = args->colour == SEARCH_BY_OUTPUT ? colours : args->colour == SEARCH_ALWAYS;
	style.heading =
	    args->heading == SEARCH_BY_OUTPUT ? terminal : args->heading == SEARCH_ALWAYS;
	style.line_numbers = args->line_numbers == SEARCH_BY_OUTPUT
	    ? terminal || style.column
	    : args->line_numbers == SEARCH_ALWAYS;
	return style;
}
