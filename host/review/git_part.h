/* SPDX-License-Identifier: Apache-2.0 */
/* What a path is in a git directory, by its name: only for what belongs together, never for what is
 * allowed. Pure. */
#ifndef KODA_HOST_REVIEW_GIT_PART_H
#define KODA_HOST_REVIEW_GIT_PART_H

#include <stddef.h>

enum git_part {
	GIT_PART_NONE,   /* it is in no git directory */
	GIT_PART_OBJECT, /* below objects: harmless, as long as nothing leads to it */
	GIT_PART_STATE,  /* refs, HEAD, index, logs: they describe each other, and need objects */
	GIT_PART_OTHER,
};

/* *ret_len becomes the length of the git directory's path: of the part's own one, if that is a linked
 * worktree's or a submodule's. For GIT_PART_NONE it is not set. */
enum git_part git_part_of(const char *path, size_t *ret_len);

/* Returns the length of the path of the outermost git directory that the path is in; 0: none. */
size_t git_part_outermost(const char *path);

/* Why a change is left out that belongs together with others of its git directory. */
extern const char git_part_together[];
/* The same when it is taken back. */
extern const char git_part_taken_back[];

#endif
