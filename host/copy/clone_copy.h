/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, collects and removes the clone of a record (host/copy/record). Its directory, record.tree, has
 * `tree` (the agent's root), `base` and `upper` (worker/clone/clone.h); what works there runs in a
 * kernel sandbox, which hides what the session must not read and can write to that directory alone.
 */
#ifndef KODA_HOST_COPY_CLONE_COPY_H
#define KODA_HOST_COPY_CLONE_COPY_H

#include "host/context/context.h"
#include "host/copy/record.h"

/* A copy of all names of a home directory is a mistake, and blocks that cannot be shared fill the disk.
 * A caller may ask for more. */
#define CLONE_FILES_MAX 1000000
#define CLONE_BYTES_MAX ((uint64_t)16 << 30)

/* Make the clone of the record, which is complete then. Returns 0, or -1 with *err set: something of it
 * may exist. */
int clone_add(const struct koda_session *ses, const struct koda_copy_options *o,
    struct copy_record *r, struct koda_error *err);
/*
 * Make what was changed in the clone a draft of the project, as if it had begun when the clone did. The
 * clone stays. May be repeated: there is one draft afterwards. Returns 1 with its id in the record, 0 if
 * nothing was changed, or -1 with *err set.
 */
int clone_collect(const struct koda_session *ses, struct copy_record *r, struct koda_error *err);
/* Forget the draft that was made of the clone, if there is one. Returns 0, or -1 with *err set. */
int clone_forget(const struct koda_session *ses, const struct copy_record *r,
    struct koda_error *err);

#endif
