/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a file of a git directory hides from a user who reviews with git: marks in the index,
 * patterns, replaced objects. Reads one file or directory, knows nothing of a scan.
 */
#ifndef KODA_WORKER_SCAN_HIDDEN_H
#define KODA_WORKER_SCAN_HIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/rules/names.h"
#include "shared/rules/policy.h"

/* What is hidden: the number of things, and a checksum of them that does not depend on their
 * order. */
struct hidden {
	uint64_t n, names;
	/* Something is there, but cannot be read. */
	bool unread;
};

enum hidden_kind { HIDDEN_LINES, HIDDEN_INDEX, HIDDEN_NAMED, HIDDEN_REPLACE, HIDDEN_PACKED };

struct hidden_row {
	const char *name; /* path in the git directory */
	enum hidden_kind kind;
	const char *tells; /* text after the number */
	bool usual;        /* not reported in a new repository: a clone may be asked to do this */
};

#define HIDDEN_ROWS 9
extern const struct hidden_row hidden_rows[HIDDEN_ROWS];

/* The names that checkout must not write unseen: deny_write_names. */
struct hidden_names {
	const struct policy_list *rules;
	const struct names_index *index; /* of the rules; NULL: none was made */
};

/*
 * Adds up what the file or directory `name` of dir_fd hides. The rest of a split index is looked for
 * in dir_fd too, and then in other_fd (-1: nowhere else).
 */
void hidden_count(const struct hidden_row *row, const struct hidden_names *names, int dir_fd,
    int other_fd, const char *name, struct hidden *ret);

/* Is there something that was not there before? is_new: nor was the repository. */
bool hidden_is_news(const struct hidden_row *row, const struct hidden *was,
    const struct hidden *now, bool is_new);

/* Writes the sentence about it: what is hidden, and which command shows it. */
#define HIDDEN_TEXT_SIZE 256
void hidden_say(const struct hidden_row *row, const struct hidden *now, char ret[HIDDEN_TEXT_SIZE]);

#endif
