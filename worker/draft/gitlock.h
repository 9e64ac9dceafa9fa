/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of another git in the project. git writes index and refs only while it has the lock beside
 * them; a file that a draft brings would take away what that git is about to write, or be lost. */
#ifndef KODA_WORKER_DRAFT_GITLOCK_H
#define KODA_WORKER_DRAFT_GITLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/files/resolve.h"

/* The longest wait for all locks of a request: an ordinary command of git has ended by then. */
#define GITLOCK_WAIT_MS 500

/*
 * Is there a lock for the file `name` of that directory (O_PATH; -1: the directory is missing), or one
 * for the whole git directory that the canonical path is in? ret gets its name.
 */
#define GITLOCK_NAME_SIZE 264
bool gitlock_is_held(const struct resolver *res, int dir, const char *name, const char *path,
    char ret[GITLOCK_NAME_SIZE]);
/* The same, but waits for it to go. *left_ms is what is left of the wait. */
bool gitlock_stays(const struct resolver *res, int dir, const char *name, const char *path,
    int *left_ms, char ret[GITLOCK_NAME_SIZE]);

/* Is that the name of a lock? */
bool gitlock_is_name(const char *name);

#endif
