/* Options and patterns -> how they are looked for: which way, with which texts and programs. Pure. */
#ifndef KODA_SEARCH_PLAN_H
#define KODA_SEARCH_PLAN_H

#include "search/grep.h"
#include "search/literal.h"
#include "search/program.h"
#include "search/texts.h"

enum plan_way {
	PLAN_TEXT,       /* the pattern is a text */
	PLAN_CANDIDATES, /* lines that hold one of the texts */
	PLAN_BUFFER,     /* many lines at once */
	PLAN_LINES,      /* each line alone */
	PLAN_WHOLE,      /* over the end of lines */
};

struct plan {
	enum plan_way way;
	struct literal text[TEXTS_MAX]; /* every match contains one of them */
	size_t n_texts;                 /* 0: nothing is known of that */
	/* One for each enum program_text; for ASCII there may be none of its own. Without PLAN_TEXT. */
	struct program *program[PROGRAM_BROKEN + 1];
};

/* 0, or -1 with *err set: KODA_INVALID (what is wrong with the pattern, and where), KODA_TOO_LARGE. plan_done() in both
 * cases. */
int plan_init(struct plan *plan, const struct grep_options *options, struct koda_error *err);
void plan_done(struct plan *plan);

#endif
