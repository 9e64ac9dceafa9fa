/* A walk's selection. Only for walk.c and walk_rules.c. */
#ifndef KODA_SEARCH_WALK_RULES_H
#define KODA_SEARCH_WALK_RULES_H

#include "search/ignore.h"
#include "search/walk.h"

struct walk_rules {
	unsigned flags;
	unsigned max_depth;
	struct ignore *globs, *types, *global; /* NULL: none */
};

#endif
