/* SPDX-License-Identifier: Apache-2.0 */
/* A change that a worker's comparison found, as a violation that the embedder and the user read. */
#ifndef KODA_HOST_PROTECT_CHANGE_H
#define KODA_HOST_PROTECT_CHANGE_H

#include "host/context/violations.h"
#include "proto/worker.pb-c.h"

/* Record the change. blame: the command, or NULL. home: the user's home directory, for the
 * reason. */
void change_tell(struct violations *to, const char *blame, const char *home,
    const Koda__Change *change);
/* Record something else of a comparison. */
void change_record(struct violations *to, const char *blame, enum koda_violation_kind kind,
    const char *target, const char *rule, const char *detail);

#endif
