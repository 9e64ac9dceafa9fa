/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of a search: resolves and judges each requested place, opens it, and reads the ignore
 * files that apply there but lie outside of it. After that the process needs nothing outside of the
 * places (op_search locks the process into them).
 */
#ifndef KODA_SEARCH_PLACES_H
#define KODA_SEARCH_PLACES_H

#include "search/walk.h"
#include "worker/session.h"

struct search_place {
	int fd;     /* open for reading; -1: failed, and `why` is the error */
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
	char *global; /* content of the user's own excludes file, or NULL */
	size_t global_len;
};

/* Opens all places. Returns 0, or -1 with *err set if the only place cannot be opened, or if
 * memory is short. The caller calls places_done() in both cases. */
int places_open(struct session *ses, const Koda__Search *ask, struct places *ret,
    struct koda_error *err);
void places_done(struct places *places);

/* Confines the process with Landlock, where the kernel has it: it can then read only the places
 * and change nothing. Cannot be undone. Returns 0, or -1 with *err set. */
int places_lock(const struct places *places, struct koda_error *err);

#endif
