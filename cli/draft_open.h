/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A draft that a user looks at or decides on: its changes, and the reader of its files, through the
 * library.
 */
#ifndef KODA_CLI_DRAFT_OPEN_H
#define KODA_CLI_DRAFT_OPEN_H

#include <jansson.h>
#include <limits.h>

#include "cli/changes_show.h"
#include "cli/command.h"

struct draft_open {
	struct koda_draft *draft;
	struct changes changes;
	struct changes_reader reader;
	struct changes_view view;
};

/*
 * Opens the draft and reads its changes. wanted (may be NULL): only those for which it returns true.
 * root, cwd: must stay until draft_close(). Returns 0, or -1 with *err set. Call draft_close() in
 * either case, with an empty one too. The caller does not move *ret: the view points into it.
 */
typedef bool draft_wanted_fn(void *data, const struct koda_change *change);
int draft_open(struct draft_open *ret, struct koda_session *session, const char *id,
    const char *root, const char *cwd, draft_wanted_fn *wanted, void *data, struct koda_error *err);
/* Reads the changes again, after some were applied or discarded. Returns as draft_open() does. */
int draft_open_again(struct draft_open *d, struct koda_error *err);
void draft_close(struct draft_open *d);

/* What was done with each change of a draft, or of an entry of the history. */
struct outcomes {
	const struct cli *cli;
	const struct changes_view *view; /* for the names */
	const char *applied;             /* "applied" */
	const char *would;               /* "would apply" */
	const char *not_applied;         /* "not applied" */
	bool dry_run, list;              /* list: also those that were applied */
	int signals;                     /* descriptor of cli/signals.h: a signal ends it; or -1 */
	uint64_t n[KODA_APPLY_UNLISTED + 1];
	uint64_t complaints;
	char
	    together[PATH_MAX]; /* the git directory that the last complaint was about as a whole */
	bool stopped;
};
/* The koda_applied_fn; data is the outcomes. Prints a line, or an object with --json. */
int outcomes_take(void *data, const struct koda_applied *one);
/* Returns the exit status: failed before conflict before refused. */
int outcomes_status(const struct outcomes *o);
/* Returns how many were not applied, except those that were not selected. */
uint64_t outcomes_left(const struct outcomes *o);
/* Prints an object on a line of its own. */
void outcomes_put_json(json_t *object);
json_t *outcome_json(const struct koda_applied *one);
/* Returns the object with the sums, to which the caller may add. */
json_t *outcomes_json(const struct outcomes *o);

/* Adds {"created": n, ...} */
void changes_set_json(json_t *object, const struct changes *c);

#endif
