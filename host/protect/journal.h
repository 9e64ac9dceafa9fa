/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a note on disk, from before the first command until the last comparison, that a session has
 * not yet checked what its commands left. If a host is killed, no later session mistakes what its
 * commands planted for the user's own files: neither a session of the same root, nor one of a
 * directory above or below it, nor one with other rules.
 *
 * A journal describes directories, not a policy: there is one file for each scanned directory, and
 * one for the caches. It has everything that is needed to finish the comparison as its session
 * would have done (host/workspace/recovery). A lock shows that its host is alive; a journal without a
 * lock is unfinished.
 *
 * This file writes a session's own journals; host/protect/journal_visit reads those of other
 * sessions.
 */
#ifndef KODA_HOST_PROTECT_JOURNAL_H
#define KODA_HOST_PROTECT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/journal.pb-c.h"
#include "shared/base/err.h"

struct policy;

/* One per directory in which a policy lets commands write, and one for the caches. */
#define JOURNAL_FILES_MAX 64

struct journal_file {
	char name[64];
	int fd;    /* stays locked */
	char *dir; /* NULL: the file for the caches */
	/* It ends in a part of a record: nothing after that could be read. */
	bool torn;
};

struct journal {
	int dir_fd; /* -1: there is no journal */
	struct journal_file file[JOURNAL_FILES_MAX];
	size_t n;
	/* A place could not be written: no more are added. A missing place counts as planted, so a
	 * short journal is on the safe side; a missing process is not, so processes still are. */
	bool failed;
};

#define JOURNAL_NONE                                                                               \
	{                                                                                          \
		.dir_fd = -1                                                                       \
	}

struct journal_input {
	const char *root;
	const struct policy *policy;
	const char *const *dir; /* scanned directories */
	size_t n_dirs;
	const char *const *cache;
	size_t n_caches;
	Koda__Place *const *place;
	size_t n_places;
};

/* Write the complete journal before the first command. Consumes dir_fd. Returns 0, or -1 with *err
 * set if nothing is written. */
int journal_begin(struct journal *j, int dir_fd, const struct journal_input *in,
    struct koda_error *err);
/* Add a place that is known from now on, or a process that must be gone before another host may
 * finish the journal. */
void journal_add(struct journal *j, const Koda__Place *place);
void journal_process(struct journal *j, pid_t pid);
/* Close the journal. compared: nothing that a command left is unseen, so the files are removed.
 * Otherwise they stay. */
void journal_end(struct journal *j, bool compared);

#endif
