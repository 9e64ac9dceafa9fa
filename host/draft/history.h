/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history: what was changed, and what is needed to take it back. In koda's own directory,
 * history/<root>/<id>/
 *
 *	about   what the entry is of (proto/history.proto)
 *	items   what was going to be changed, and what became of it: records, only ever appended
 *	old/    what a change took away; after it was taken back, what the change had brought
 *
 * An item is written down and synced before a worker changes anything, and its result afterwards. A
 * host that is killed in between leaves an item without a result, which is done again: the worker
 * recognizes by the inodes what was done. This file keeps the books; it touches nothing in `old` or
 * in the project.
 */
#ifndef KODA_HOST_DRAFT_HISTORY_H
#define KODA_HOST_DRAFT_HISTORY_H

#include "host/draft/history_entry.h"

/* Make an entry; draft NULL: for file operations. Returns 0 with *ret, which the caller closes, or -1
 * with *err set. */
int history_make(const char *state, const char *root, const char *draft, struct history *ret,
    struct koda_error *err);
/* Open an entry, lock it, and read its books. */
int history_open(const char *state, const char *root, const char *id, struct history *ret,
    struct koda_error *err);
/* The same only to look at it: one that is in use, too, which is not locked then. */
int history_look(const char *state, const char *root, const char *id, struct history *ret,
    struct koda_error *err);
/* The same, without waiting for one that is in use. */
int history_open_at_once(const char *state, const char *root, const char *id, struct history *ret,
    struct koda_error *err);
/* Open the directory of an entry that another process may be using, without locking it. Returns -1 if
 * there is none. */
int history_directory(const char *state, const char *root, const char *id);
/* Read the books of an open entry again, after another process has written to them. On failure it is as
 * it was. */
int history_read_again(struct history *h, struct koda_error *err);
/* Remove the entry with all that it holds, and close it. */
int history_remove(const char *state, struct history *h, struct koda_error *err);

/* Call fn for each entry of the root (NULL: of all roots), the oldest first, until it returns other
 * than 0, which is then returned. The entry is closed; in_use tells the rest. */
typedef int history_each_fn(void *data, const struct history *h);
int history_list(const char *state, const char *root, history_each_fn *fn, void *data,
    struct koda_error *err);
/* The same for the entries of one draft. */
int history_of_draft(const char *state, const char *root, const char *draft, history_each_fn *fn,
    void *data, struct koda_error *err);
/* Find an entry that a host has not applied to the end, because it was killed, or because what it did
 * could not be written to disk. Returns 1 with its id, 0 if there is none, -1 with *err set. */
int history_begun(const char *state, const char *root, const char *draft,
    char ret[NAMED_ID_MAX + 1], struct koda_error *err);
#endif
