/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a change of a draft be applied? Each is judged as the operation that would do the same, with
 * the same rules and sentences, and refused for what no operation can bring into a project.
 *
 * A git directory is recognised by what is in it, so a change is judged twice: as the project is,
 * and as if all that the draft makes were there and nothing of what it deletes were gone. Whatever
 * part of the draft a person chooses, it lies between the two.
 */
#ifndef KODA_WORKER_DRAFT_DRAFT_JUDGE_H
#define KODA_WORKER_DRAFT_DRAFT_JUDGE_H

#include "worker/draft/draft_state.h"

/* Judges a change that puts w->name at w->path. Returns 0, or -1 with *err set. */
int draft_judge(struct draft_walk *w, struct draft_change *c, struct koda_error *err);
/* Judges the removal of what is at w->path in the project, with everything below it. *ret_newest
 * becomes the latest ctime below it. Returns 0, or -1 with *err set. */
int draft_judge_removal(struct draft_walk *w, struct draft_change *c, int64_t *ret_newest,
    struct koda_error *err);

#endif
