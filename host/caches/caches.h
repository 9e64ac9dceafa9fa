/*
 * The caches of tools below the home directory: which there are, and what in them commands may not change. One row each.
 *
 * Commands write them in a layer of their own (stage2/caches, host/caches/cache_store): the host's stay as they are, so that nothing a
 * command leaves there is run by the host.
 */
#ifndef KODA_HOST_CACHES_CACHES_H
#define KODA_HOST_CACHES_CACHES_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/rules/policy.h"

#define CACHES_SPARE_MAX 8

struct cache_row {
	const char *path; /* below the home directory */
	/* Where the user may have moved it, and what is behind that: "GOPATH", "pkg/mod"; NULL: nowhere. */
	const char *variable, *behind;
	/* What it is called below CACHES_SPARE when it is not there: then `variable` names that. NULL: nothing does. */
	const char *spare;
	/* Below it: configuration, programs, tokens. As read-only as the rows of default_protected. NULL at the end. */
	const char *fixed[6];
};

/* An empty path ends the table. */
extern const struct cache_row cache_rows[];

struct cache {
	char *name;     /* below a layer, and below the home directory, if it is there */
	char *path;     /* canonical */
	bool elsewhere; /* not below the home directory */
};

struct caches {
	struct cache *v;
	size_t n;
	const struct cache_row *missing[CACHES_SPARE_MAX]; /* with a spare one each */
	size_t n_missing;
	char *
	    root; /* one that commands write all the same, because it is a writable directory itself; or NULL */
};

/* Where commands find caches that the host does not have, and what that directory is called in a layer. */
#define CACHES_SPARE      "/run/koda/spare"
#define CACHES_SPARE_NAME ".koda-spare-caches"
/* What those are in, in a layer, that are not below the home directory. */
#define CACHES_ELSEWHERE_NAME ".koda-caches-elsewhere"

/*
 * Canonical, none inside another: those that are directories of this user below home; and, wherever they are, there or not, each
 * that lies in a directory of `writable`, which commands could make or write on the host. Not one that contains such a
 * directory. 0, or -1 with *err set.
 */
int caches_find(const char *home, const struct policy_list *writable, struct caches *ret,
    struct koda_error *err);
void caches_done(struct caches *c);

/* Is a name below the home directory in one of the rows? */
bool caches_hold(const char *name);

/* Add what is fixed in the rows. */
int caches_fixed(const char *home, struct policy_list *list, struct koda_error *err);

/* Add what is in the place of a cache below root, or leads to one, and is no directory: nothing can be mounted there, so
 * that it may only stay as it is. */
int caches_strange(const char *home, const char *root, struct policy_list *list,
    struct koda_error *err);

#endif
