/* SPDX-License-Identifier: Apache-2.0 */
/* What an apply is going to do with each change of a draft. */
#ifndef KODA_HOST_REVIEW_PLAN_H
#define KODA_HOST_REVIEW_PLAN_H

#include <sys/stat.h>

#include "host/draft/reveal.h"
#include "host/review/select.h"
#include "host/review/state.h"

/* What is going to be done with a change. */
enum fate {
	FATE_UNSELECTED, /* something that was selected may need it: a directory, an object of git */
	FATE_APPLY,
	FATE_REFUSED,
	FATE_CONFLICT,
	FATE_SKIPPED, /* it needs what is not applied */
	FATE_DROPPED, /* the project's version is taken */
};

struct planned {
	struct reviewed change;
	enum fate fate;
	bool merged; /* what is applied is the merged text */
	bool was_clean;
	/* The state of the git directory with the first so many bytes of the path is left out as a
	 * whole; 0: it is about this change alone. */
	size_t together;
	unsigned pass; /* set by plan_order() */
	size_t item;   /* the number of its item, once it has one */
};

struct apply_plan {
	struct koda_draft *draft;
	struct selection selection;
	enum koda_take take;
	struct planned *v;
	size_t n, size;
	size_t text; /* bytes */
	bool cut;    /* the draft has names that are not listed */
	/* All that the draft deletes, selected or not. */
	struct reveal_name *gone;
	size_t n_gone, gone_size;
};

/* The fate of a change that is selected. */
enum fate plan_fate(const struct apply_plan *p, const struct reviewed *c);

/* May something that is selected need this change, which is not? */
bool plan_is_needed(const struct reviewed *c);

/*
 * Index and refs of a git directory are applied together or not at all, and only with the objects that
 * they name. Objects alone do nothing.
 */
void plan_settle_git(struct apply_plan *p);

/* In which order changes are made: all of a pass before those of the next. Within a pass the order of
 * the paths holds; in PLAN_LAST, which deletes, and in PLAN_CLOSE, which gives directories permissions
 * that let nothing in or out, the deepest goes first. */
enum { PLAN_FIRST, PLAN_STATE, PLAN_LAST, PLAN_CLOSE, PLAN_PASSES };
/* What the owner of a directory needs to put something into it. */
#define PLAN_FILLABLE (S_IWUSR | S_IXUSR)
/* Is it a directory without that? */
bool plan_is_closed(const struct draft_side *s);
/* Sets the pass of each change. */
void plan_order(struct apply_plan *p);

#endif
