/* SPDX-License-Identifier: Apache-2.0 */
/* Options and patterns -> how the patterns are searched: in which way, with which texts and
 * programs. Pure. */
#ifndef KODA_SEARCH_PLAN_H
#define KODA_SEARCH_PLAN_H

#include "search/grep_options.h"
#include "search/literal.h"
#include "search/program.h"
#include "search/texts.h"

enum plan_way {
	PLAN_TEXT,       /* the pattern is a plain text */
	PLAN_CANDIDATES, /* only lines that contain one of the texts */
	PLAN_BUFFER,     /* many lines at once */
	PLAN_LINES,      /* each line separately */
	PLAN_WHOLE,      /* matches may span lines */
};

struct grep_plan {
	enum plan_way way;
	struct literal text[TEXTS_MAX]; /* every match contains one of them */
	size_t n_texts;                 /* 0: no such texts are known */
	/* One for each enum program_text. NULL for all if PLAN_TEXT; that for ASCII may be NULL
	 * anyway. */
	struct program *program[PROGRAM_BROKEN + 1];
};

/* Chooses a way and compiles for it. Returns 0, or -1 with *err set: KODA_INVALID (what is wrong
 * with the pattern, and where), KODA_TOO_LARGE. The caller calls plan_done() in both cases. */
int plan_init(struct grep_plan *plan, const struct grep_options *options, struct koda_error *err);
void plan_done(struct grep_plan *plan);

#endif
