/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the copies of a project: in koda's own directory, copies/<root>/<id>/
 *
 *	about        what the copy is of (proto/copy.proto); written once, then the copy is listed
 *	ready        the copy is complete; the commit that it began with. Before that, no agent has
 *	             worked in it
 *	removing     nothing was in it, or it was to be discarded
 *	collected    the id of the draft that was made of a clone's changes; then the draft appeared
 *	busy         an empty file with a second lock. git gets it as its input, and so keeps the lock
 *	             until it has ended, which after a host was killed takes a moment
 *	.new-*       a record that is being made
 *
 * The record is made before anything of the copy, and removed after everything of it, so what a
 * killed host leaves is listed. Its lock (flock) shows that a process uses the copy: the kernel
 * releases it when that host ends.
 */
#ifndef KODA_HOST_COPY_RECORD_H
#define KODA_HOST_COPY_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

#define COPY_ID_MAX  32 /* bytes: [A-Za-z0-9._-]+, not . or .. */
#define COPY_VERSION 1

struct copy_record {
	char id[COPY_ID_MAX + 1];
	int fd;      /* the record's directory, which holds the lock; -1: closed */
	int busy_fd; /* the file with the second lock */
	enum koda_workspace kind;
	char *root, *tree, *prefix, *agent;
	int64_t begun_ns;
	char *top, *git, *common, *branch; /* NULL: a clone */
	char *base;                        /* "": a clone; NULL: not complete */
	char *draft;                       /* of a clone, see above; NULL: none was made yet */
	bool ready, removing;
};

#define COPY_RECORD_CLOSED                                                                         \
	(struct copy_record)                                                                       \
	{                                                                                          \
		.fd = -1, .busy_fd = -1                                                            \
	}

/* Returns true if the text has the form of an id. */
bool copy_id_valid(const char *id);
/* Fill ret with an id that does not exist yet, most probably. */
void copy_id_choose(char ret[COPY_ID_MAX + 1]);

/* Write and lock a record with the fields of r, whose fd is then set. state: koda's own directory.
 * Returns 0, or -1 with *err set. */
int copy_record_make(const char *state, struct copy_record *r, struct koda_error *err);
/* The copy is complete, or is removed from here on. They return 0, or -1 with *err set. */
int copy_record_ready(struct copy_record *r, const char *base, struct koda_error *err);
int copy_record_removing(struct copy_record *r, struct koda_error *err);
/* Its changes become the draft with that id. Returns 0, or -1 with *err set. */
int copy_record_collected(struct copy_record *r, const char *draft, struct koda_error *err);
/* Open a record of that root and lock it. Returns 0 with *ret, which the caller closes, or -1 with
 * *err set: KODA_INVALID if it does not exist, KODA_CONFLICT if another process uses it. */
int copy_record_open(const char *state, const char *root, const char *id, struct copy_record *ret,
    struct koda_error *err);
/* Accepts a closed one. Nothing is removed. */
void copy_record_close(struct copy_record *r);
/* Remove the record, whose copy is gone. Returns 0, or -1 with *err set. */
int copy_record_remove(const char *state, const struct copy_record *r, struct koda_error *err);

/* Call fn for each record of the root (NULL: of all roots), until it returns other than 0, which is
 * then returned. Returns -1 with *err set if the list cannot be read. */
typedef int copy_record_fn(void *data, const struct copy_record *r, bool in_use);
int copy_record_list(const char *state, const char *root, copy_record_fn *fn, void *data,
    struct koda_error *err);

#endif
