/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and visits the journals (host/protect/journal) of other sessions. It decides which journals
 * have no living host, and which of several hosts finishes a journal. Commands cannot see journals,
 * but they are validated all the same.
 */
#ifndef KODA_HOST_PROTECT_JOURNAL_VISIT_H
#define KODA_HOST_PROTECT_JOURNAL_VISIT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "proto/journal.pb-c.h"
#include "shared/base/err.h"

struct pollfd;

/* A journal that is not finished. */
struct journal_found {
	const char *name;
	bool live; /* its host holds the lock */
	time_t written;
	Koda__Journal *journal; /* NULL: it is damaged */
	Koda__Place **more;
	size_t n_more;
};

/*
 * Visits the journals that no live host holds. wanted() decides whether one is to be finished. If
 * so, journal_visit() waits for the processes of its host, and for another host that is finishing
 * it, and then calls finish() with the journal locked (a damaged one only shared). finish() returns
 * 1 if the journal is finished and goes away, 0 if it stays, -1 to give up. *ret_left: a wanted
 * journal took too long and was left alone.
 */
struct journal_visitor {
	bool (*wanted)(void *data, const struct journal_found *found);
	int (*finish)(void *data, const struct journal_found *found, struct koda_error *err);
	/* Waits like poll(). Returns -1 to give up what is waited for. */
	int (*wait)(void *data, struct pollfd *fds, size_t n, int timeout_ms);
	void *data;
};
int journal_visit(int dir_fd, const struct journal_visitor *by, bool *ret_left,
    struct koda_error *err);

/* Calls fn for every unfinished journal in its current state, whether its host is alive or not. Does
 * not read those that skip() names; it may be NULL. */
void journal_visit_all(int dir_fd, bool (*skip)(const void *data, const char *name),
    void (*fn)(void *data, const struct journal_found *found), void *data);

/* Returns true if the name of a damaged journal shows that it describes this root, or a directory
 * above it. */
bool journal_is_of(const char *name, const char *root);

#endif
