/*
 * A path that somebody asked for -> the place it means, on descriptors. Links are followed by hand
 * and counted; every hop is told to the caller, who judges it. Nothing is opened but with O_PATH, so
 * resolving has no side effect on a FIFO, a device or a tape.
 *
 * The common case, no link on the way, is one openat2 that the kernel refuses to leave the root or to
 * follow a link in; everything else walks component by component with O_PATH|O_NOFOLLOW. '..' goes
 * back to the directory that the canonical text so far names, never to what a descriptor's parent has
 * become meanwhile.
 *
 * Decides nothing about permission. Knows the policy's depth only as a number.
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
	const char *root; /* canonical text of it */
	unsigned depth;   /* links in one resolution; more are refused as not provable */
	int proc_fd;      /* /proc/self/fd, for reopening what an O_PATH descriptor names */
	bool no_openat2;  /* the kernel has none (or hides it): walk always */
};

/* The last component itself is not followed when it is a link (remove, rename, mkdir, stat). */
#define RESOLVE_LINK_ITSELF (1 << 0)
/* parent_fd and name are wanted too (changes); otherwise only target_fd is promised. */
#define RESOLVE_PARENT (1 << 1)

#define RESOLVE_HOPS_MAX 40

struct place {
	char path[PATH_LEN_MAX + 1]; /* canonical; names missing directories too */
	int parent_fd; /* O_PATH: the directory that holds `name`, as deep as it exists; -1 if not asked for */
	const char *name; /* points into path: the first component below parent_fd */
	const char *
	    missing; /* points into path: what is missing below name, "" if only name is or nothing */
	int target_fd;               /* O_PATH of what path names; -1 when it does not exist */
	struct stat st;              /* of target_fd */
	bool wants_dir;              /* the asked path ended in a slash */
	char *hop[RESOLVE_HOPS_MAX]; /* canonical path of each link followed, oldest first */
	size_t n_hops;
};

/* The length of `name` alone, without what is missing below it. */
static inline size_t
place_name_len(const struct place *pl)
{
	return *pl->missing == '\0' ? strlen(pl->name) : (size_t)(pl->missing - pl->name) - 1;
}

void place_init(struct place *pl);
void place_done(struct place *pl);

/*
 * 0 with *ret filled (caller's to place_done), also when the last component or a whole tail of
 * directories does not exist: then target_fd is -1. -1 with *err set: KODA_INVALID
 * ('..' above the root or behind a missing directory, an empty or over-long path), KODA_IO (not a
 * directory, no permission), KODA_POLICY_DENIED (too many links or a cycle, rule "link_depth"; a magic
 * link of proc, rule "magic_link"). Then ret names what it failed at (path, "" when there is nothing to
 * name) and the hops so far, no descriptors: whoever may not read that must not learn why it failed.
 * place_done in any case.
 *
 * A relative path starts at the root and may not climb above it; an absolute one starts at "/".
 */
int resolve(const struct resolver *r, const uint8_t *path, size_t len, unsigned flags,
    struct place *ret, struct koda_error *err);

/* A canonical path, link-free by what it claims: its directory as O_PATH. For asking about what is
 * around a place. -1 with errno. */
int resolve_canonical_dir(const struct resolver *r, const char *path, size_t len);

/*
 * Does the kernel agree that this descriptor is at that path now? Holds what was judged (the text)
 * against what is acted on (the descriptor): a directory that somebody moved meanwhile is found here.
 * KODA_CONFLICT if not.
 */
int resolve_verify(const struct resolver *r, int fd, const char *path, size_t len,
    struct koda_error *err);

/* Open for reading what an O_PATH descriptor names, itself, by /proc/self/fd. -1 with errno. */
int resolve_reopen(const struct resolver *r, int fd, int flags);

#endif
