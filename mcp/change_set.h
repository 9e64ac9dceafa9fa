/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a draft, for a client: as rows of JSON and as text for the model and the person.
 * Bounded, however many there are. Commands chose all names and contents, so they are escaped.
 */
#ifndef KODA_MCP_CHANGE_SET_H
#define KODA_MCP_CHANGE_SET_H

#include "include/koda/sandbox.h"
#include "mcp/text.h"

/* The changes that are listed; the others are counted. */
#define CHANGE_SET_MAX 200
/* The notes that are listed, also those of changes that are not. */
#define CHANGE_NOTES_MAX 16
/* Bytes of all diffs. */
#define CHANGE_SET_DIFF_BYTES (64u << 10)

struct change_one {
	char *path; /* canonical */
	enum koda_change_kind kind;
	enum koda_apply_outcome outcome; /* KODA_APPLIED: it would be applied */
	char *rule, *reason;             /* why not, or NULL */
	enum koda_file_type type_before, type;
	uint64_t size_before, size;
	uint32_t mode;
	char *target; /* of a link in the draft, or NULL */
	bool merged;  /* it is in conflict, and a merge is applied, or would be */
	enum koda_merge_outcome merge_outcome; /* of a conflict */
	char *merge; /* the text of it; NULL: there is none, or it was not kept */
	size_t merge_len;
};

/* What git hides from a reviewer because of a change. */
struct change_note {
	char *path, *text;
};

/* Zero-initialise. */
struct change_set {
	struct change_one one[CHANGE_SET_MAX];
	size_t n;
	struct change_note note[CHANGE_NOTES_MAX];
	size_t n_notes;
	uint64_t n_all, n_outcome[KODA_APPLY_UNLISTED + 1];
	const char *root;
	bool done;          /* the outcomes are what happened, not what would happen */
	bool cut;           /* the draft has names that the library does not list */
	size_t merge_bytes; /* of all texts */
};

void change_set_done(struct change_set *set);

/* Takes all changes of the draft. */
int change_set_list(struct change_set *set, struct koda_draft *draft, const char *root,
    struct koda_error *err);
/* Takes what would be applied with these options, by a dry run; and what merges of conflicts give. */
int change_set_plan(struct change_set *set, struct koda_draft *draft, const char *root,
    const struct koda_apply_options *options, struct koda_error *err);
/* Adds one outcome: the koda_applied_fn of a set. */
int change_set_add(void *set, const struct koda_applied *one);

/* Appends the counts: "3 changes, 1 refused". */
void change_set_counts(const struct change_set *set, struct text *t);
/* Appends a line for each listed change. */
void change_set_lines(const struct change_set *set, struct text *t);
/* Returns the listed changes. */
json_t *change_set_json(const struct change_set *set);
/* Returns the listed notes, or NULL if there are none. */
json_t *change_set_notes(const struct change_set *set);

/* Appends the diffs of files that would be applied (all: of all). Returns false if not all are
 * shown in full. */
bool change_set_diffs(const struct change_set *set, struct koda_draft *draft, bool all,
    struct text *t);

#endif
