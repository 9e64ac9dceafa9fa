/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line as data: words, options and their values. Reports what is wrong with it; prints
 * nothing and opens nothing.
 */
#ifndef KODA_CLI_ARGS_H
#define KODA_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

enum opt {
	OPT_MODE,
	OPT_ROOT,
	OPT_JSON,
	OPT_VERBOSE,
	OPT_HELP,
	OPT_VERSION,
	OPT_OFFSET,
	OPT_MAX,
	OPT_DIGEST,
	OPT_OLD,
	OPT_NEW,
	OPT_ALL,
	OPT_PARENTS,
	OPT_RECURSIVE,
	OPT_OVERWRITE,
	OPT_IF_ABSENT,
	OPT_IF_DIGEST,
	OPT_DURABLE,
	OPT_DRY_RUN,
	OPT_COMMAND,
	OPT_TIMEOUT,
	OPT_TTY,
	OPT_NO_TTY,
	OPT_NO_SANDBOX,
	OPT_DRAFT,
	OPT_JUDGED,
	OPT_NO_DRAFT,
	OPT_CLONE,
	OPT_HEAD,
	OPT_ONCE,
	OPT_INTERVAL,
	OPT_AUDIT,
	OPT_CHILD,
	N_OPTS,
};

#define OPT_BIT(opt) (UINT64_C(1) << (opt))
#define OPT_COMMON                                                                                 \
	(OPT_BIT(OPT_MODE) | OPT_BIT(OPT_ROOT) | OPT_BIT(OPT_JSON) | OPT_BIT(OPT_VERBOSE) |        \
	    OPT_BIT(OPT_HELP) | OPT_BIT(OPT_VERSION))
#define OPT_MUTATION (OPT_BIT(OPT_IF_DIGEST) | OPT_BIT(OPT_DURABLE) | OPT_BIT(OPT_DRY_RUN))

struct opt_spec {
	const char *name;  /* with its dashes */
	char letter;       /* 0: none */
	const char *value; /* name of its value, for the help; NULL: it takes none */
	const char *help;
};
extern const struct opt_spec opt_specs[N_OPTS];

/*
 * The options of a command that has many of its own. They are valid after the command's name; from
 * there on a letter means the command's own option if it has one with that letter, else the general
 * one. They are returned as a list, which the command interprets.
 */
struct opt_table {
	const struct opt_spec *specs;
	size_t n;         /* at most 64 */
	uint64_t allowed; /* one bit for each row that the command has */
};

struct opt_given {
	size_t opt;
	const char *value; /* points into argv; NULL if it takes none */
};

/* Returns the table of the command that the words so far name, or NULL. */
typedef const struct opt_table *args_own_fn(char *const *words, size_t n_words);

struct args {
	uint64_t given; /* OPT_BIT of each option seen */
	enum koda_mode mode;
	const char *root;
	uint64_t offset, max;
	uint8_t if_digest[KODA_DIGEST_BYTES];
	struct koda_edit *edits; /* in the order given; the texts point into argv */
	size_t n_edits;
	const char *command; /* -c */
	unsigned timeout_ms;
	uint8_t head[KODA_DIGEST_BYTES]; /* --head */
	unsigned interval_ms;            /* --interval */
	const char *audit, *child;
	char **words; /* the arguments that are not options, in order; the strings are argv's */
	size_t n_words;
	const struct opt_table *own;
	struct opt_given *own_given; /* in the order given */
	size_t n_own_given;
};

#define ARGS_WHY_MAX 512

/*
 * Parses the command line. Options may stand anywhere. "--" ends them, and so does the first word
 * of the command that `run` is to run: what follows belongs to that command. Returns 0 with *ret
 * filled, to be freed by args_done(); or -1 with one sentence in why. ret->given then has the
 * options seen so far, and --json if it stands anywhere later.
 */
int args_parse(int argc, char **argv, args_own_fn *own_of, struct args *ret,
    char why[ARGS_WHY_MAX]);
void args_done(struct args *args);

static inline bool
args_has(const struct args *args, enum opt opt)
{
	return args->given & OPT_BIT(opt);
}

/*
 * Was the command's own option given? *ret (may be NULL) is then its last value; otherwise it is left
 * as it is.
 */
static inline bool
args_own(const struct args *args, size_t opt, const char **ret)
{
	bool given = false;

	for (size_t i = 0; i < args->n_own_given; i++) {
		if (args->own_given[i].opt != opt)
			continue;
		given = true;
		if (ret != NULL)
			*ret = args->own_given[i].value;
	}
	return given;
}

/* For code that parses a value: writes the sentence to why, and returns -1. */
int args_fail(char why[ARGS_WHY_MAX], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Parses a number from min to max. On failure why says that `name` wants `what` ("a number of
 * bytes").
 */
int args_number(const char *name, const char *text, const char *what, uint64_t min, uint64_t max,
    uint64_t *ret, char why[ARGS_WHY_MAX]);

const char *args_mode_name(enum koda_mode mode);

/* Returns which of the n names `word` was probably meant to be, or NULL. */
const char *args_closest(const char *word, const char *const *names, size_t n);

#endif
