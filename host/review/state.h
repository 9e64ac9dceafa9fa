/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a review share: an open draft, and one change of it. */
#ifndef KODA_HOST_REVIEW_STATE_H
#define KODA_HOST_REVIEW_STATE_H

#include "host/draft/history.h"
#include "host/draft/store.h"
#include "host/review/held.h"
#include "host/review/own.h"

struct koda_draft {
	struct held_like like;
	struct draft draft;
	struct holder held;
	struct own own;
	int history_fd; /* what its worker may put things into; -1: nothing, it only looks */
};

/* One change, as a worker listed it and this host checked it. */
struct reviewed {
	uint32_t layer;
	char *path;
	Koda__DraftKind kind;
	struct draft_side before, after;
	char *rule, *reason; /* NULL: the policy allows it */
	char *note;          /* what a person should know about it, or NULL */
	bool conflict;
	uint64_t entries;
};

void change_done(struct reviewed *c);
/* Returns the bytes of its texts: see HISTORY_TEXT_MAX. */
size_t change_text(const struct reviewed *c);
/* Makes the draft forget it, with everything below it, except what is in a directory whose permissions
 * alone differ. Returns 0, or -1 with *err set. */
int change_drop(const struct koda_draft *d, const struct reviewed *c, struct koda_error *err);
/* Checks an entry of a worker's list, and copies it. ret is empty before, and the caller's after -1, too:
 * then *err is set. */
int change_take(const struct draft *d, uint32_t layer, const Koda__DraftEntry *e,
    struct reviewed *ret, struct koda_error *err);
/* Sets *err to that the list is invalid, and returns -1. */
int change_broken(const char *what, struct koda_error *err);
/* What the public header shows of it; it points into the change. */
struct change_shown {
	struct koda_change change;
	struct koda_change_side before, after;
};
void change_show(const struct reviewed *c, struct change_shown *ret);
/* The same of an item of the history. */
void item_show(const struct history_item *item, struct change_shown *ret);

/* Make the draft's worker hold that entry of the history, too (-1: none). Starts another worker if it
 * has to. Returns 0, or -1 with *err set. */
int draft_hold(struct koda_draft *d, int history_fd, struct koda_error *err);
/* After something went wrong there may be no worker: start one that only looks. */
int draft_look(struct koda_draft *d, struct koda_error *err);

/* Call fn for each change, which it may take over by clearing the struct, until it returns other than
 * 0, which is then returned. -1 with *err set. */
typedef int change_fn(void *data, struct reviewed *c);
int changes_each(struct koda_draft *d, change_fn *fn, void *data, bool *ret_cut,
    struct koda_error *err);

#endif
