/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories in koda's own directory that have an id: drafts/<root>/<id>, history/<root>/<id>. The
 * directory's lock (flock) shows whether a process uses it. Making and removing one are one rename
 * each, so a killed host leaves a whole one, or a name that the next named_list() removes.
 */
#ifndef KODA_HOST_DRAFT_NAMED_H
#define KODA_HOST_DRAFT_NAMED_H

#include <stdbool.h>

#include "shared/base/err.h"

#define NAMED_ID_MAX 32 /* bytes: [A-Za-z0-9._-]+, which does not begin with a dot */

/* What the words of an error are about. */
struct named_kind {
	const char *folder; /* in koda's own directory */
	const char *one;    /* "draft" */
	const char *look;   /* what shows the ids */
};
extern const struct named_kind named_drafts, named_history;

/* Is that the form of an id? */
bool named_id_valid(const char *id);

/* Open the directory that holds all of a root. Returns -1 with errno. */
int named_open_all(const struct named_kind *kind, const char *state, const char *root, bool make);

/* Make one under a temporary name, and lock it. Returns its descriptor, and its id in `id`; -1 with
 * *err set. */
int named_make(const struct named_kind *kind, int all, char id[NAMED_ID_MAX + 1],
    struct koda_error *err);
/* Give it its name, now that it is complete. Returns 0, or -1 with *err set and nothing left. */
int named_appear(const struct named_kind *kind, int all, const char *id, struct koda_error *err);
/* Remove what named_make() made. */
void named_give_up(int all, const char *id);

/* Is one to be locked, and may that take a moment? */
enum named_lock {
	NAMED_UNLOCKED,
	NAMED_AT_ONCE,
	NAMED_WAIT,
};

/* Open one. Returns its descriptor, or -1 with *err set: KODA_INVALID if there is none, KODA_CONFLICT
 * if it is to be locked and another process has locked it. */
int named_open(const struct named_kind *kind, int all, const char *id, enum named_lock how,
    struct koda_error *err);
/* Returns what to add to a message about a file of one of them: a question if the state directory, or
 * its file system, may be read-only. */
const char *named_ask(int errnum);
/* Remove one that the caller has locked, with everything in it. Returns 0, or -1 with *err set: then
 * it is as it was. */
int named_remove(const struct named_kind *kind, int all, const char *id, struct koda_error *err);

/* Call fn with each id, in no particular order, until it returns other than 0, which is then
 * returned. Removes what killed hosts have left. Returns -1 with *err set if the directory cannot be
 * read. */
typedef int named_each_fn(void *data, int all, const char *id);
int named_list(const struct named_kind *kind, int all, named_each_fn *fn, void *data,
    struct koda_error *err);
/* The same for every root that has any. `name` is the root's directory. */
typedef int named_root_fn(void *data, int all);
int named_roots(const struct named_kind *kind, const char *state, named_root_fn *fn, void *data,
    struct koda_error *err);

#endif
