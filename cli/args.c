/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/hex.h"

/* clang-format off */
const struct opt_spec opt_specs[N_OPTS] = {
	[OPT_MODE]      = { "--mode", 0, "MODE", "plan, safe or auto; the default is safe" },
	[OPT_ROOT]      = { "--root", 0, "DIR", "the project; the default is the current directory" },
	[OPT_JSON]      = { "--json", 0, NULL, "print JSON, also for errors" },
	[OPT_VERBOSE]   = { "--verbose", 'v', NULL, "report what was done, and what happens to the workers" },
	[OPT_HELP]      = { "--help", 'h', NULL, "explain this command" },
	[OPT_VERSION]   = { "--version", 0, NULL, "print the version" },
	[OPT_OFFSET]    = { "--offset", 0, "N", "start at byte N" },
	[OPT_MAX]       = { "--max", 0, "N", "read at most N bytes" },
	[OPT_DIGEST]    = { "--digest", 0, NULL, "print the BLAKE2b-256 of the whole file" },
	[OPT_OLD]       = { "--old", 0, "TEXT", "replace TEXT, which must occur exactly once ..." },
	[OPT_NEW]       = { "--new", 0, "TEXT", "... with TEXT; --old and --new may be repeated" },
	[OPT_ALL]       = { "--all", 0, NULL, "replace every occurrence of the --old before it" },
	[OPT_PARENTS]   = { "--parents", 'p', NULL, "make missing parents; accept an existing directory" },
	[OPT_RECURSIVE] = { "--recursive", 'r', NULL, "remove a directory and everything below it" },
	[OPT_OVERWRITE] = { "--overwrite", 'f', NULL, "replace what is there" },
	[OPT_IF_ABSENT] = { "--if-absent", 0, NULL, "only create; fail if the name exists" },
	[OPT_IF_DIGEST] = { "--if-digest", 0, "HEX", "only if the file has this BLAKE2b-256 digest" },
	[OPT_DURABLE]   = { "--durable", 0, NULL, "write to disk before reporting success" },
	[OPT_DRY_RUN]   = { "--dry-run", 0, NULL, "check and describe, but change nothing" },
	[OPT_COMMAND]   = { "--command", 'c', "SHELL", "run this command line with sh -c" },
	[OPT_TIMEOUT]   = { "--timeout", 0, "SECONDS", "stop after this time; for commands at most the policy's limit" },
	[OPT_TTY]       = { "--tty", 0, NULL, "always run it on a pseudo-terminal" },
	[OPT_NO_TTY]    = { "--no-tty", 0, NULL, "always run it on pipes" },
	[OPT_NO_SANDBOX] = { "--no-sandbox", 0, NULL, "for debugging: run it without any sandbox (safe mode only)" },
	[OPT_DRAFT]     = { "--draft", 0, NULL, "hold its changes back in a draft; then decide on them" },
	[OPT_JUDGED]    = { "--judged", 0, NULL, "hold its changes back, and apply what the policy allows at its end" },
	[OPT_CLONE]     = { "--clone", 0, NULL, "as --draft, in a copy of the project's files" },
	[OPT_NO_DRAFT]  = { "--no-draft", 0, NULL, "safe mode: change the project itself" },
	[OPT_HEAD]      = { "--head", 0, "HEX", "the head that the server printed when it ended" },
	[OPT_ONCE]      = { "--once", 0, NULL, "print once and end" },
	[OPT_INTERVAL]  = { "--interval", 0, "SECONDS", "refresh after this time; the default is 1" },
	[OPT_AUDIT]     = { "--audit", 0, "FILE", "write an audit log to FILE, outside every directory that the agent may write" },
	[OPT_CHILD]     = { "--child", 0, "TOKEN", "serve the child session that open_child made" },
};
/* clang-format on */

static const char *const mode_names[] = {
	[KODA_PLAN] = "plan",
	[KODA_SAFE] = "safe",
	[KODA_AUTO] = "auto",
};

const char *
args_mode_name(enum koda_mode mode)
{
	return mode_names[mode];
}

/* A longer word is not a misspelt name of ours. */
#define NAME_LEN_MAX 32

/* The number of letters to insert, delete, replace or swap with their neighbour. */
static unsigned
distance(const char *a, const char *b)
{
	unsigned d[NAME_LEN_MAX + 1][NAME_LEN_MAX + 1];
	size_t m = strlen(a), n = strlen(b);

	if (m > NAME_LEN_MAX || n > NAME_LEN_MAX)
		return NAME_LEN_MAX;
	for (size_t i = 0; i <= m; i++) {
		for (size_t j = 0; j <= n; j++) {
			unsigned best;

			if (i == 0 || j == 0) {
				d[i][j] = (unsigned)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[m][n];
}

const char *
args_closest(const char *word, const char *const *names, size_t n)
{
	unsigned best = NAME_LEN_MAX;
	const char *ret = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned d;

		if (names[i] == NULL)
			continue;
		d = distance(word, names[i]);
		/* At most a third of the letters: 'lst' is list, 'cat' is unknown. */
		if (d < best && d * 3 <= strlen(names[i]) + 1) {
			best = d;
			ret = names[i];
		}
	}
	return ret;
}

int
args_fail(char why[ARGS_WHY_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, ARGS_WHY_MAX, fmt, ap);
	va_end(ap);
	return -1;
}

int
args_number(const char *name, const char *text, const char *what, uint64_t min, uint64_t max,
    uint64_t *ret, char why[ARGS_WHY_MAX])
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : (end = NULL, 0);
	if (end == NULL || *end != '\0' || errno != 0 || value > INT64_MAX)
		return args_fail(why, "%s needs %s, not '%s'", name, what, text);
	if (value < min)
		return args_fail(why, "%s must be at least %llu", name, (unsigned long long)min);
	if (value > max)
		return args_fail(why, "%s must be at most %llu", name, (unsigned long long)max);
	*ret = value;
	return 0;
}

static int
parse_bytes(const char *name, const char *text, uint64_t min, uint64_t *ret, char why[ARGS_WHY_MAX])
{
	return args_number(name, text, "a number of bytes", min, INT64_MAX, ret, why);
}

/* Seconds with up to three decimals: "90", "0.5". The library applies the policy's limit. */
#define TIMEOUT_MAX_SECS 86400

static int
parse_seconds(const char *name, const char *text, unsigned *ret, char why[ARGS_WHY_MAX])
{
	unsigned long secs = 0, ms = 0, place = 100;
	const char *p = text;

	if (!isdigit((unsigned char)*p))
		return args_fail(why, "%s needs a number of seconds, not '%s'", name, text);
	for (; isdigit((unsigned char)*p); p++)
		if ((secs = secs * 10 + (unsigned long)(*p - '0')) > TIMEOUT_MAX_SECS)
			return args_fail(why, "%s must be at most %d", name, TIMEOUT_MAX_SECS);
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p); p++, place /= 10)
			ms += (unsigned long)(*p - '0') * place;
	if (*p != '\0')
		return args_fail(why, "%s needs a number of seconds, not '%s'", name, text);
	if (secs == 0 && ms == 0)
		return args_fail(why, "%s must be greater than 0", name);
	*ret = (unsigned)(secs * 1000 + ms);
	return 0;
}

static int
parse_digest(const char *name, const char *text, uint8_t ret[KODA_DIGEST_BYTES],
    char why[ARGS_WHY_MAX])
{
	const char *printer = strcmp(name, "--head") == 0 ? "the server" : "--digest";
	uint8_t digest[KODA_DIGEST_BYTES];

	if (!hex_parse(digest, sizeof(digest), text) || text[2 * sizeof(digest)] != '\0')
		return args_fail(why, "%s needs 64 hexadecimal digits, as %s prints them", name,
		    printer);
	memcpy(ret, digest, sizeof(digest));
	return 0;
}

static int
parse_mode(const char *text, enum koda_mode *ret, char why[ARGS_WHY_MAX])
{
	const char *near;

	for (size_t i = KODA_PLAN; i <= KODA_AUTO; i++) {
		if (strcmp(text, mode_names[i]) == 0) {
			*ret = (enum koda_mode)i;
			return 0;
		}
	}
	near = args_closest(text, mode_names, sizeof(mode_names) / sizeof(mode_names[0]));
	if (near != NULL)
		return args_fail(why, "unknown mode '%s', did you mean '%s'?", text, near);
	return args_fail(why, "unknown mode '%s': the modes are plan, safe and auto", text);
}

/* Returns the last pair that --old began, or NULL. */
static struct koda_edit *
last_edit(struct args *args)
{
	return args->n_edits > 0 ? &args->edits[args->n_edits - 1] : NULL;
}

static int
take(struct args *args, enum opt opt, const char *value, char why[ARGS_WHY_MAX])
{
	const char *name = opt_specs[opt].name;
	struct koda_edit *edit = last_edit(args);

	/* Two values of one option are a mistake, and for --mode it would be dangerous to guess. */
	if (args_has(args, opt) && opt_specs[opt].value != NULL && opt != OPT_OLD && opt != OPT_NEW)
		return args_fail(why, "%s is given twice", name);
	args->given |= OPT_BIT(opt);

	switch (opt) {
	case OPT_MODE:
		return parse_mode(value, &args->mode, why);
	case OPT_ROOT:
		args->root = value;
		return 0;
	case OPT_OFFSET:
		return parse_bytes(name, value, 0, &args->offset, why);
	case OPT_MAX:
		return parse_bytes(name, value, 1, &args->max, why);
	case OPT_IF_DIGEST:
		return parse_digest(name, value, args->if_digest, why);
	case OPT_HEAD:
		return parse_digest(name, value, args->head, why);
	case OPT_OLD:
		if (edit != NULL && edit->new_text == NULL)
			return args_fail(why, "--old is given twice without a --new in between");
		edit = &args->edits[args->n_edits++];
		edit->old_text = value;
		edit->old_len = strlen(value);
		return 0;
	case OPT_NEW:
		if (edit == NULL || edit->new_text != NULL)
			return args_fail(why, "--new must follow the --old that it replaces");
		edit->new_text = value;
		edit->new_len = strlen(value);
		return 0;
	case OPT_ALL:
		if (edit == NULL)
			return args_fail(why, "--all must follow the --old that it applies to");
		edit->all = true;
		return 0;
	case OPT_COMMAND:
		args->command = value;
		return 0;
	case OPT_TIMEOUT:
		return parse_seconds(name, value, &args->timeout_ms, why);
	case OPT_INTERVAL:
		return parse_seconds(name, value, &args->interval_ms, why);
	case OPT_AUDIT:
		args->audit = value;
		return 0;
	case OPT_CHILD:
		args->child = value;
		return 0;
	case OPT_JSON:
	case OPT_VERBOSE:
	case OPT_HELP:
	case OPT_VERSION:
	case OPT_DIGEST:
	case OPT_PARENTS:
	case OPT_RECURSIVE:
	case OPT_OVERWRITE:
	case OPT_IF_ABSENT:
	case OPT_DURABLE:
	case OPT_DRY_RUN:
	case OPT_TTY:
	case OPT_NO_TTY:
	case OPT_NO_SANDBOX:
	case OPT_DRAFT:
	case OPT_JUDGED:
	case OPT_NO_DRAFT:
	case OPT_CLONE:
	case OPT_ONCE:
	case N_OPTS:
		return 0;
	}
	return 0;
}

/* The general options. Not every command takes all of them. */
static const struct opt_table general = { opt_specs, N_OPTS, UINT64_MAX };

struct args_row {
	const struct opt_table *table; /* NULL: there is no such option */
	size_t opt;
};

static bool
is_allowed(const struct opt_table *table, size_t opt)
{
	return (table->allowed >> opt & 1) != 0;
}

static struct args_row
find_long(const struct args *args, const char *name, size_t len)
{
	const struct opt_table *const tables[] = { args->own, &general };

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (size_t opt = 0; tables[t] != NULL && opt < tables[t]->n; opt++) {
			const char *have = tables[t]->specs[opt].name;

			if (is_allowed(tables[t], opt) && strlen(have) == len &&
			    memcmp(have, name, len) == 0)
				return (struct args_row){ tables[t], opt };
		}
	}
	return (struct args_row){ 0 };
}

static struct args_row
find_letter(const struct args *args, char letter)
{
	const struct opt_table *const tables[] = { args->own, &general };

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (size_t opt = 0; tables[t] != NULL && opt < tables[t]->n; opt++) {
			if (is_allowed(tables[t], opt) && tables[t]->specs[opt].letter == letter)
				return (struct args_row){ tables[t], opt };
		}
	}
	return (struct args_row){ 0 };
}

static int
unknown_option(const struct args *args, const char *name, char why[ARGS_WHY_MAX])
{
	const struct opt_table *own = args->own;
	const char *names[N_OPTS + 64], *near;
	size_t n = 0;

	for (size_t i = 0; own != NULL && i < own->n; i++) {
		if (is_allowed(own, i))
			names[n++] = own->specs[i].name;
	}
	for (size_t i = 0; i < N_OPTS; i++)
		names[n++] = opt_specs[i].name;
	near = args_closest(name, names, n);
	if (near != NULL)
		return args_fail(why, "unknown option '%s', did you mean '%s'?", name, near);
	return args_fail(why, "unknown option '%s'", name);
}

static int
take_row(struct args *args, struct args_row row, const char *value, char why[ARGS_WHY_MAX])
{
	if (row.table == &general)
		return take(args, (enum opt)row.opt, value, why);
	args->own_given[args->n_own_given++] = (struct opt_given){ row.opt, value };
	return 0;
}

/* Parses --name, --name VALUE or --name=VALUE at argv[*i]; leaves *i at the last argument used. */
static int
parse_long(int argc, char **argv, int *i, struct args *args, char why[ARGS_WHY_MAX])
{
	const char *arg = argv[*i], *equals = strchr(arg, '=');
	size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
	const char *value = equals != NULL ? equals + 1 : NULL;
	struct args_row row = find_long(args, arg, len);
	const struct opt_spec *spec;
	char shown[NAME_LEN_MAX + 1];

	if (row.table == NULL) {
		snprintf(shown, sizeof(shown), "%.*s", (int)len, arg);
		return unknown_option(args, shown, why);
	}
	spec = &row.table->specs[row.opt];
	if (spec->value == NULL && value != NULL)
		return args_fail(why, "%s takes no value", spec->name);
	if (spec->value != NULL && value == NULL) {
		if (*i + 1 >= argc)
			return args_fail(why, "%s needs a value: %s", spec->name, spec->value);
		value = argv[++*i];
	}
	return take_row(args, row, value, why);
}

/* Parses -r, -rp, -c VALUE or -cVALUE; leaves *i at the last argument used. */
static int
parse_short(int argc, char **argv, int *i, struct args *args, char why[ARGS_WHY_MAX])
{
	const char *arg = argv[*i];

	for (const char *p = arg + 1; *p != '\0'; p++) {
		struct args_row row = find_letter(args, *p);
		const char *wants;

		if (row.table == NULL)
			return args_fail(why, "unknown option '%s'", arg);
		wants = row.table->specs[row.opt].value;
		if (wants != NULL) {
			if (p[1] != '\0')
				return take_row(args, row, p + 1, why);
			if (*i + 1 >= argc)
				return args_fail(why, "-%c needs a value: %s", *p, wants);
			return take_row(args, row, argv[++*i], why);
		}
		if (take_row(args, row, NULL, why) < 0)
			return -1;
	}
	return 0;
}

/* Are the words so far "run" or "draft run ID", and the name of the command that it runs? */
static bool
command_begins(const struct args *args)
{
	if (args->n_words == 4)
		return strcmp(args->words[0], "draft") == 0 && strcmp(args->words[1], "run") == 0;
	return args->n_words == 2 && strcmp(args->words[0], "run") == 0;
}

/* An error before --json on the command line must also be reported as JSON. */
static void
look_for_json(int argc, char **argv, int from, struct args *args)
{
	for (int i = from; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], opt_specs[OPT_JSON].name) == 0)
			args->given |= OPT_BIT(OPT_JSON);
	}
}

/* Counts the most options that there can be: one per letter. */
static size_t
count_letters(int argc, char **argv)
{
	size_t n = 0;

	for (int i = 0; i < argc; i++)
		n += strlen(argv[i]);
	return n;
}

int
args_parse(int argc, char **argv, args_own_fn *own_of, struct args *ret, char why[ARGS_WHY_MAX])
{
	bool options = true;
	int i, r = 0;

	*ret = (struct args){ .mode = KODA_SAFE, .root = "." };
	ret->words = calloc((size_t)argc + 1, sizeof(*ret->words));
	ret->edits = calloc((size_t)argc + 1, sizeof(*ret->edits));
	ret->own_given = calloc(count_letters(argc, argv) + 1, sizeof(*ret->own_given));
	if (ret->words == NULL || ret->edits == NULL || ret->own_given == NULL)
		return args_fail(why, "out of memory");

	for (i = 1; i < argc && r == 0; i++) {
		const char *arg = argv[i];

		if (!options || arg[0] != '-' || arg[1] == '\0') {
			ret->words[ret->n_words++] = argv[i];
			if (ret->own == NULL)
				ret->own = own_of(ret->words, ret->n_words);
			if (command_begins(ret))
				options = false;
		} else if (strcmp(arg, "--") == 0) {
			options = false;
		} else if (arg[1] == '-') {
			r = parse_long(argc, argv, &i, ret, why);
		} else {
			r = parse_short(argc, argv, &i, ret, why);
		}
	}
	if (r == 0 && ret->n_edits > 0 && last_edit(ret)->new_text == NULL)
		r = args_fail(why, "--old needs a --new after it");
	if (r < 0 && options)
		look_for_json(argc, argv, i, ret);
	return r;
}

void
args_done(struct args *args)
{
	free(args->words);
	free(args->edits);
	free(args->own_given);
	args->own_given = NULL;
	args->words = NULL;
	args->edits = NULL;
}
