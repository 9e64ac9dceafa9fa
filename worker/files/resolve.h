/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves a requested path to the place it means, on descriptors. Links are followed one by one
 * and counted; every hop is reported to the caller, which judges it. Everything is opened with
 * O_PATH, so resolving has no side effect on a FIFO, a device or a tape.
 *
 * The common case, no link on the way, is one openat2 call in which the kernel refuses to leave the
 * root or to follow a link. All other paths are walked component by component with
 * O_PATH|O_NOFOLLOW. '..' goes back to the directory that the canonical text so far names, never to
 * a descriptor's current parent.
 *
 * Decides nothing about permission. Knows of the policy only the maximal number of links.
 */
#ifndef KODA_WORKER_FILES_RESOLVE_H
#define KODA_WORKER_FILES_RESOLVE_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/base/err.h"

struct resolver {
	int root_fd;      /* O_PATH */
	const char *root; /* its canonical path */
	/* Maximal number of links in one resolution; more are refused as not provable. */
	unsigned depth;
	int proc_fd; /* /proc/self/fd, for reopening O_PATH descriptors */
	/* The kernel does not have it, or a filter hides it, or it must not be called: always
	 * walk. */
	bool no_openat2;
};

/* Do not follow the last component if it is a link (remove, rename, mkdir, stat). */
#define RESOLVE_LINK_ITSELF (1 << 0)
/* Also set parent_fd and name (for changes); otherwise only target_fd is promised. */
#define RESOLVE_PARENT (1 << 1)

#define RESOLVE_HOPS_MAX 40

struct place {
	char path[PATH_LEN_MAX + 1]; /* canonical; includes missing directories */
	/* O_PATH: the deepest existing directory on the way to `name`; -1 if not requested. */
	int parent_fd;
	const char *name; /* points into path: the first component below parent_fd */
	/* Points into path: the missing part below `name`; "" if only `name` is missing, or
	 * nothing. */
	const char *missing;
	int target_fd;               /* O_PATH of what path names; -1 if it does not exist */
	struct stat st;              /* of target_fd */
	bool wants_dir;              /* the requested path ended in a slash */
	char *hop[RESOLVE_HOPS_MAX]; /* canonical path of each link that was followed, in order */
	size_t n_hops;
};

/* Returns the length of `name`, without the missing part below it. */
static inline size_t
place_name_len(const struct place *pl)
{
	return *pl->missing == '\0' ? strlen(pl->name) : (size_t)(pl->missing - pl->name) - 1;
}

void place_init(struct place *pl);
void place_done(struct place *pl);

/*
 * Resolves a path. Returns 0 with *ret filled, also if the last component, or the last directories
 * too, do not exist: then target_fd is -1. Otherwise -1 with *err set: KODA_INVALID ('..' above the
 * root or after a missing directory, an empty or over-long path), KODA_IO (not a directory, no
 * permission), KODA_POLICY_DENIED (too many links or a cycle, rule "link_depth"; a magic link of
 * proc, rule "magic_link"). After an error ret holds the path that failed ("" if there is none) and
 * the hops so far, but no descriptors: the caller judges that path first, because a caller that may
 * not read it must not learn why it failed. The caller calls place_done() in every case.
 *
 * A relative path starts at the root and may not climb above it; an absolute one starts at "/".
 */
int resolve(const struct resolver *r, const uint8_t *path, size_t len, unsigned flags,
    struct place *ret, struct koda_error *err);

/* Opens a directory by a canonical path, which has to be free of links, as O_PATH. For looking
 * around a place. Returns -1 with errno. */
int resolve_canonical_dir(const struct resolver *r, const char *path, size_t len);

/*
 * Asks the kernel whether this descriptor is at that path now: the worker has judged the path and
 * will act on the descriptor. Detects a directory that another process has moved. Returns 0, or -1
 * with KODA_CONFLICT.
 */
int resolve_verify(const struct resolver *r, int fd, const char *path, size_t len,
    struct koda_error *err);

/* Reopens the file that an O_PATH descriptor refers to, through /proc/self/fd, with these flags.
 * Returns -1 with errno. */
int resolve_reopen(const struct resolver *r, int fd, int flags);

#endif
