/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the upper tree of a layer and the project's tree side by side and stops at each name that
 * the draft changes. On descriptors only, never through a link. In order: a directory before what
 * is in it, names by their bytes.
 *
 * The walk is kept between the pages of a list, so that a page costs what is on it. What decides
 * about a name is in draft_differ.c, what refuses it in draft_judge.c.
 */
#ifndef KODA_WORKER_DRAFT_DRAFT_WALK_H
#define KODA_WORKER_DRAFT_DRAFT_WALK_H

#include "worker/draft/draft_state.h"

/* Opens the project's directory of a layer (O_PATH), which must be the one of the Seal and be at its
 * path. Returns -1 with *err set. */
int draft_open_project(struct session *ses, size_t layer, struct koda_error *err);
/* Begins at the top of a layer. Returns NULL with *err set. */
struct draft_walk *draft_walk_new(struct session *ses, size_t layer, struct koda_error *err);
void draft_walk_free(struct draft_walk *w);
/* Goes to what follows the change of that kind at that path, which need not be there any more.
 * Returns 0, or -1 with *err set. */
int draft_walk_seek(struct draft_walk *w, const char *path, Koda__DraftKind kind,
    struct koda_error *err);
/* Goes to the next name with changes. Returns 1; 0 at the end; -1 with *err set. */
int draft_walk_next(struct draft_walk *w, struct koda_error *err);

#endif
