/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, looks into and removes the worktree of a record (host/copy/record). */
#ifndef KODA_HOST_COPY_WORKTREE_COPY_H
#define KODA_HOST_COPY_WORKTREE_COPY_H

#include "host/context/context.h"
#include "host/copy/record.h"

/* What is in a worktree that is not in the commit that it began with. */
struct worktree_state {
	uint64_t commits; /* on its branch, HEAD and in their logs */
	uint64_t changes; /* names that git reports: changed, untracked, ignored */
	bool other;       /* files that git does not report */
	bool staged;      /* the index differs */
	bool doing;       /* a merge, a rebase or the like */
	bool committed;   /* worktree_commit() made a commit */
};

/* Make the branch and the worktree of the record, which is complete then. Returns 0, or -1 with *err
 * set: something of it may exist. */
int worktree_add(const struct koda_session *ses, struct copy_record *r, struct koda_error *err);
/* Look into it. With `commit`, first commit what is in it; *ret is then what is left beside the
 * commit, and its commits. Returns 0, or -1 with *err set. */
int worktree_look(const struct koda_session *ses, const struct copy_record *r, bool commit,
    struct worktree_state *ret, struct koda_error *err);
/* Remove the worktree, and its branch unless keep_branch. expected: where the branch has to be, else
 * it stays; NULL: anywhere. May be repeated. Returns 1 if the branch stays, 0, or -1 with *err set. */
int worktree_remove(const struct koda_session *ses, const struct copy_record *r, bool keep_branch,
    const char *expected, struct koda_error *err);

#endif
