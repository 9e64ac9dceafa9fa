/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps in the history what file operations take away, and writes down what they change
 * (koda_history_undo()). The worker was sealed with an entry of the history for that; without one, all
 * of this does nothing. Nothing here makes an operation fail: what cannot be kept is reported in the
 * Outcome (`unkept`) and in the record.
 *
 * Before an operation acts, what it will take away gets a second name in `old` of the entry (a hard
 * link), then the change is written down; the operation itself stays as it is, one rename. So at no
 * moment is a file only under a temporary name, and Recover has nothing more to decide. (Exchanging
 * the new and the old file would need a second rename to bring the old one to `old`, and another
 * answer of Recover for a death between the two.) Between file systems, and between mounts, which
 * includes a worker in its sandbox, the file is copied instead. A directory cannot have two names: it is
 * moved to `old` when Remove would delete it.
 */
#ifndef KODA_WORKER_FILES_KEEP_H
#define KODA_WORKER_FILES_KEEP_H

#include "worker/session.h"

/* Larger files, or directories, are not copied: it would take longer than the operation itself. */
#define KEEP_COPY_MAX         (UINT64_C(16) << 20)
#define KEEP_COPY_ENTRIES_MAX 2000
/* More than this is not kept by one worker: half of what the whole history may have. */
#define KEEP_BYTES_MAX (UINT64_C(1) << 30)

bool keep_is_on(const struct session *ses);

/* Write or Mkdir: what has the name `temp` in the place's directory is going to be renamed to it. */
void keep_change(struct session *ses, const struct place *at, const char *temp, Koda__Outcome *out);
/* Remove. Returns true if the directory has to be moved with keep_removed() later. */
bool keep_remove(struct session *ses, const struct place *at, Koda__Outcome *out);
void keep_rename(struct session *ses, const struct place *from, const struct place *to,
    Koda__Outcome *out);

/* What was announced for this request did not happen. */
void keep_not_done(struct session *ses);
/* The same for a request of a worker that died. */
void keep_forget(struct session *ses, const uint8_t token[TOKEN_BYTES], uint64_t request);

/* Moves what a Remove took from its place, and has the name `temp` now, to `old`. Returns 0, or -1 if
 * that is not possible: the caller deletes it. */
int keep_removed(struct session *ses, const uint8_t token[TOKEN_BYTES], uint64_t request,
    int dir_fd, const char *temp);
/* Call it after keep_removed(): the Outcome gets to know how large that was. */
void keep_measure(struct session *ses, Koda__Outcome *out);

#endif
