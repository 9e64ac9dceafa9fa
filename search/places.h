/*
 * Where a search goes: resolves and judges each place that was asked for, opens it, and reads the ignore files that count
 * there without being in it. After that the process needs nothing outside of the places any more (op_search locks itself
 * into them).
 */
#ifndef KODA_SEARCH_PLACES_H
#define KODA_SEARCH_PLACES_H

#include "search/walk.h"
#include "worker/session.h"

struct search_place {
	int fd;     /* for reading; -1: it could not be had, and `why` says why */
	char *path; /* canonical */
	struct stat st;
	struct koda_error why;
	struct walk_parent *parents;
	size_t n_parents;
	bool in_repository;
};

struct places {
	struct search_place *v;
	size_t n;
	char *global; /* the user's own excludes file, or NULL */
	size_t global_len;
};

/* -1 with *err set when the only place cannot be had, or memory is short. */
int places_open(struct session *ses, const Koda__Search *ask, struct places *ret,
    struct koda_error *err);
void places_done(struct places *places);

/* From now on nothing but the places can be read, and nothing changed, as far as the kernel has Landlock. Cannot be
 * undone. */
int places_lock(const struct places *places, struct koda_error *err);

#endif
