/* SPDX-License-Identifier: Apache-2.0 */
#include "search/walk_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "search/braces.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/filetypes.h"

/* The most of a name or glob in a message. */
#define SHOWN_MAX 200

void
walk_rules_free(struct walk_rules *rules)
{
	if (rules == NULL)
		return;
	ignore_free(rules->globs);
	ignore_free(rules->types);
	ignore_free(rules->global);
	free(rules);
}

static void
rules_free_at(struct walk_rules **rules)
{
	walk_rules_free(*rules);
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "prepare a search");
}

static int
refuse(struct koda_error *err, const char *what, const char *text, const char *why)
{
	const bool much = why == BRACES_TOO_MANY || why == IGNORE_TOO_MANY;
	char shown[SHOWN_MAX];

	if (why == GLOB_NO_MEMORY)
		return no_memory(err);
	bytes_show(shown, sizeof(shown), text, strlen(text));
	return err_set(err, much ? KODA_TOO_LARGE : KODA_INVALID, 0, "the %s '%s': %s", what, shown,
	    why);
}

static int
add_globs(struct walk_rules *r, const struct walk_rules_options *o, struct koda_error *err)
{
	const bool ignore_case = (o->flags & KODA_SEARCH_GLOB_IGNORE_CASE) != 0;

	r->globs = ignore_new();
	if (r->globs == NULL)
		return no_memory(err);
	for (size_t i = 0; i < o->n_globs; i++) {
		const char *why = ignore_add_glob(r->globs, o->globs[i],
		    ignore_case ? GLOB_IGNORE_CASE : 0, WALK_GLOBS_MAX);

		if (why != NULL)
			return refuse(err, "glob", o->globs[i], why);
	}
	return ignore_ready(r->globs) < 0 ? no_memory(err) : 0;
}

static int
add_type(struct walk_rules *r, const char *name, bool negated, struct koda_error *err)
{
	const struct filetype *type = filetype_find(name);

	if (type == NULL)
		return refuse(err, "type", name, "there is no type of that name");
	for (const char *const *glob = type->globs; *glob != NULL; glob++) {
		const char *why = ignore_add_name(r->types, *glob, negated, WALK_GLOBS_MAX);

		if (why != NULL)
			return refuse(err, "type", name, why);
	}
	return 0;
}

static int
add_types(struct walk_rules *r, const struct walk_rules_options *o, struct koda_error *err)
{
	r->types = ignore_new();
	if (r->types == NULL)
		return no_memory(err);
	for (size_t i = 0; i < o->n_types; i++) {
		if (add_type(r, o->types[i], false, err) < 0)
			return -1;
	}
	/* After the others, so that excluded types stay excluded. */
	for (size_t i = 0; i < o->n_types_not; i++) {
		if (add_type(r, o->types_not[i], true, err) < 0)
			return -1;
	}
	return ignore_ready(r->types) < 0 ? no_memory(err) : 0;
}

static int
add_global(struct walk_rules *r, const struct walk_rules_options *o, struct koda_error *err)
{
	r->global = ignore_new();
	if (r->global == NULL)
		return no_memory(err);
	if (ignore_add_file(r->global, o->global, o->global_len, WALK_RULES_MAX) < 0)
		return errno == E2BIG ? err_set(err, KODA_TOO_LARGE, 0,
					    "the user's own excludes file has too many rules")
				      : no_memory(err);
	return ignore_ready(r->global) < 0 ? no_memory(err) : 0;
}

struct walk_rules *
walk_rules_new(const struct walk_rules_options *o, struct koda_error *err)
{
	cleanup(rules_free_at) struct walk_rules *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		no_memory(err);
		return NULL;
	}
	r->flags = o->flags;
	r->max_depth = o->max_depth;
	if (o->n_globs > 0 && add_globs(r, o, err) < 0)
		return NULL;
	if (o->n_types + o->n_types_not > 0 && add_types(r, o, err) < 0)
		return NULL;
	if (o->global != NULL && (o->flags & KODA_SEARCH_NO_GLOBAL) == 0 &&
	    add_global(r, o, err) < 0)
		return NULL;
	return take_ptr(&r);
}
