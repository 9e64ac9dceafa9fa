/* What removing and renaming have in common: something that is there goes away from its name. */
#ifndef KODA_WORKER_FILES_MOVE_H
#define KODA_WORKER_FILES_MOVE_H

#include "worker/session.h"

/* The root, and what holds it, stays where it is. */
int move_check_root(struct session *ses, const char *verb, const struct place *at,
    struct koda_error *err);

/* May this directory go, with all below it? By the policy's text, and (ret_entries not NULL) by looking
 * through all of it. */
int move_check_tree(struct session *ses, enum access_op op, const struct place *at,
    uint64_t *ret_entries, struct koda_error *err);

/* Is what has that name now what was found before it was moved? */
bool moved_is(int dir_fd, const char *name, const struct stat *was);

#endif
