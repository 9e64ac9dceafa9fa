/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where drafts are: in koda's own directory, drafts/<root>/<id>/
 *
 *	about        what the draft is of (proto/draft.proto); written once, then the draft exists
 *	mounted      empty; its mtime is when the draft was mounted last
 *	0/u, 0/w     the changes in the first directory that commands write, and overlayfs's own
 *	0/m          names that are not shown in it (host/draft/mask.h)
 *
 * The directory's lock shows whether a slot works in the draft, or whether it is being applied
 * (host/draft/named).
 */
#ifndef KODA_HOST_DRAFT_STORE_H
#define KODA_HOST_DRAFT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/draft/named.h"

#define DRAFT_DIRS_MAX 64 /* what a slot's commands write: a few directories */
#define DRAFT_VERSION  1

struct draft_dir {
	char *path;
	dev_t dev;
	ino_t ino;
	char name[4]; /* of its layer */
};

struct draft {
	char id[NAMED_ID_MAX + 1];
	char *root;
	int64_t begun_ns;
	int fd; /* the draft's directory, which holds the lock; -1: closed */
	struct draft_dir dir[DRAFT_DIRS_MAX];
	size_t n_dirs;
	bool in_use; /* another process has locked it; only for draft_list() */
};

#define DRAFT_CLOSED                                                                               \
	(struct draft)                                                                             \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Make a draft of these directories, which exist, and lock it. state: koda's own directory. Returns 0
 * with *ret, which the caller closes, or -1 with *err set. */
int draft_make(const char *state, const char *root, const char *const *dirs, size_t n,
    struct draft *ret, struct koda_error *err);
/*
 * Make a draft of the root of what another way than an overlay has found to be changed since begun_ns:
 * `upper` in the directory `from`, which is moved, and the paths in the file `gone` there, each with a NUL, which
 * were deleted: both are untrusted. named() gets its id right before it appears: if the
 * host is killed afterwards, a draft with that id is complete. The draft is not locked then. Returns 0,
 * or -1 with *err set: there is no draft, and `upper` may be gone.
 */
typedef int draft_named_fn(void *data, const char *id, struct koda_error *err);
int draft_make_of(const char *state, const char *root, int64_t begun_ns, int from,
    const char *upper, const char *gone, draft_named_fn *named, void *data, struct koda_error *err);
/* Open a draft of that root and lock it. Returns 0 with *ret, which the caller closes, or -1 with *err
 * set: KODA_NOT_FOUND, or KODA_CONFLICT if another process uses it. */
int draft_open(const char *state, const char *root, const char *id, struct draft *ret,
    struct koda_error *err);
/* Before the draft is mounted again: remove what the last mount has left of overlayfs's own. Returns 0,
 * or -1 with *err set. */
int draft_renew(const struct draft *d, struct koda_error *err);
/* Returns when it was mounted last, by the clock that stamps files; 0: unknown. */
int64_t draft_mounted_ns(const struct draft *d);
/* Accepts a closed one. Nothing is removed. */
void draft_close(struct draft *d);
/* In a forked child: the lock is the parent's. */
void draft_abandon(struct draft *d);
/* Remove the draft, and close it. A killed host leaves a name that the next draft_list() removes.
 * Returns 0, or -1 with *err set: then the draft is as it was. */
int draft_discard(const char *state, struct draft *d, struct koda_error *err);

/* Call fn for each draft of the root (NULL: of all roots), the oldest first, until it returns other
 * than 0, which is then returned. The draft is closed; in_use tells the rest. Returns -1
 * with *err set if the list cannot be read. */
typedef int draft_each_fn(void *data, const struct draft *d);
int draft_list(const char *state, const char *root, draft_each_fn *fn, void *data,
    struct koda_error *err);

#endif
