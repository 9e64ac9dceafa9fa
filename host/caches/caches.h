/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caches of tools below the home directory: which ones there are, and what in them commands may
 * not change. One row each.
 *
 * Commands write them in a layer of their own (stage2/caches, host/caches/cache_store). The host's
 * caches stay as they are, so the host never runs what a command leaves there.
 */
#ifndef KODA_HOST_CACHES_CACHES_H
#define KODA_HOST_CACHES_CACHES_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/rules/policy.h"

#define CACHES_SPARE_MAX 8

struct cache_row {
	const char *path; /* below the home directory */
	/* An environment variable with which the user may have moved the cache, and the path of the
	 * cache below the variable's value: "GOPATH", "pkg/mod". NULL: there is none. */
	const char *variable, *behind;
	/* Its name below CACHES_SPARE if the host does not have it; `variable` is then set to
	 * that path. NULL: there is no such replacement. */
	const char *spare;
	/* Paths below it with configuration, programs or tokens, which are read-only like the
	 * rows of default_protected. NULL at the end. */
	const char *fixed[6];
};

/* An empty path ends the table. */
extern const struct cache_row cache_rows[];

struct cache {
	/* Its path below a layer, and below the home directory if it is there. */
	char *name;
	char *path;     /* canonical */
	bool elsewhere; /* not below the home directory */
};

struct caches {
	struct cache *v;
	size_t n;
	const struct cache_row *missing[CACHES_SPARE_MAX]; /* each has a spare one */
	size_t n_missing;
	/* A cache that commands write directly, because it is itself a writable directory; or
	 * NULL. */
	char *root;
};

/* Where commands find caches that the host does not have, and the name of that directory in a
 * layer. */
#define CACHES_SPARE      "/run/koda/spare"
#define CACHES_SPARE_NAME ".koda-spare-caches"
/* The directory in a layer with the caches that are not below the home directory. */
#define CACHES_ELSEWHERE_NAME ".koda-caches-elsewhere"

/*
 * Find the caches: canonical paths, none inside another. These are the rows that are directories of
 * this user below home; and, anywhere and whether it exists or not, each row that is in a directory
 * of `writable`, which commands could make or write on the host. A cache that contains such a
 * directory is left out. caches_done() frees *ret. Returns 0, or -1 with *err set.
 */
int caches_find(const char *home, const struct policy_list *writable, struct caches *ret,
    struct koda_error *err);
void caches_done(struct caches *c);

/* Returns true if a name below the home directory is inside one of the rows. */
bool caches_hold(const char *name);

/* Add the fixed paths of the rows. Returns 0, or -1 with *err set. */
int caches_fixed(const char *home, struct policy_list *list, struct koda_error *err);

/* Add what is in the place of a cache below root, or leads to one, and is not a directory:
 * nothing can be mounted there, so it may only stay as it is. Returns 0, or -1 with *err set. */
int caches_strange(const char *home, const char *root, struct policy_list *list,
    struct koda_error *err);

#endif
