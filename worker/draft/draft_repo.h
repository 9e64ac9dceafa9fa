/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A git repository that a draft makes is applied whole, if it is harmless (repo.h), or not at all: in
 * part it would be broken, or another one than the command made. So the walk looks ahead, once, at
 * everything in it.
 */
#ifndef KODA_WORKER_DRAFT_DRAFT_REPO_H
#define KODA_WORKER_DRAFT_DRAFT_REPO_H

#include "worker/draft/draft_state.h"

/* Judges the directory at w->name, which the draft makes, if it is a git directory: refuses the change,
 * or sets w->makes_repo. Returns 0, or -1 with *err set. */
int draft_repo_judge(struct draft_walk *w, struct draft_change *c, struct koda_error *err);

/* May w->name be applied although the policy protects names like it, because it is in such a
 * repository? */
bool draft_repo_has(struct draft_walk *w);

/* Is w->name a git directory of the project, of which the draft makes another one? Then nothing of it
 * is applied; *ret says why. */
bool draft_repo_replaces(struct draft_walk *w, struct draft_refusal *ret);

#endif
