/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of Remove and Rename: an existing file leaves its name. */
#ifndef KODA_WORKER_FILES_MOVE_H
#define KODA_WORKER_FILES_MOVE_H

#include "worker/session.h"

/* Refuses to move or remove the session's root, or a directory that contains it. */
int move_check_root(struct session *ses, const char *verb, const struct place *at,
    struct koda_error *err);

/* Judges whether this directory may be moved or removed with everything below it: by the
 * policy's text and, if ret_entries is not NULL, by looking through all of it. */
int move_check_tree(struct session *ses, enum access_op op, const struct place *at,
    uint64_t *ret_entries, struct koda_error *err);

/* Is the file with that name, after the move, the one that the worker had found before it? */
bool moved_is(int dir_fd, const char *name, const struct stat *was);

#endif
