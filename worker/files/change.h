/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the operations that change files: guards, the order of reporting and acting,
 * the Outcome. */
#ifndef KODA_WORKER_FILES_CHANGE_H
#define KODA_WORKER_FILES_CHANGE_H

#include "worker/files/replace.h"
#include "worker/files/type.h"
#include "worker/session.h"

/* Retries when another process was faster. No legitimate work makes and removes a directory more
 * often than that. */
#define CHANGE_TRIES PREPARED_MAX
/* Like CHANGE_TRIES, for workers that wait for one another at one file: in each round one of
 * them finishes. */
#define LOCK_TRIES 64

/* An Outcome and the memory that it points to. */
struct outcome {
	Koda__Outcome msg;
	uint8_t digest[KODA_DIGEST_BYTES], digest_before[KODA_DIGEST_BYTES];
};
/* Returns an Outcome for *at as it is now: path, type and size. Memory of the request; NULL with
 * *err set. */
struct outcome *outcome_new(struct session *ses, const struct place *at, struct koda_error *err);

/* Returns 0 for the file types that Read, Write, Remove and Rename handle; -1 with *err naming
 * the type. */
int refuse_special(const struct place *at, const char *verb, struct koda_error *err);

/* The rename that replaces a file needs no permission on it; a write does, so check for it. */
int may_write(const struct session *ses, const struct place *at, const char *verb,
    struct koda_error *err);

/*
 * Check a guard: everything but the digest; the digest of the place's content, which goes into
 * out; and a digest that is known already. guard_digest() also computes it for a dry run. fd:
 * open for reading, or -1.
 */
int guard_check(const Koda__Guard *guard, const struct place *at, struct koda_error *err);
int guard_digest(struct session *ses, const Koda__Guard *guard, const struct place *at, int fd,
    bool dry, struct outcome *out, struct koda_error *err);
int guard_compare(const Koda__Guard *guard, const struct place *at,
    const uint8_t digest[KODA_DIGEST_BYTES], struct koda_error *err);

/*
 * Opens the file to be changed for reading and locks it, so that only one worker changes it.
 * *ret_fd is the caller's. Returns 0; 1 if the file was replaced during the wait (start again);
 * -1 with *err set.
 */
int open_to_change(struct session *ses, const struct place *at, int *ret_fd,
    struct koda_error *err);

/* Judges each missing directory on the way: may it be made? */
int judge_missing(struct session *ses, const struct place *at, struct koda_error *err);

struct file_change {
	const struct place *at;
	const struct file_content *content; /* NULL: make a directory */
	Koda__Outcome *outcome;
	bool durable;
	bool exclusive; /* never replace anything */
	bool same;      /* replace only the file that was read */
};
/*
 * Makes the file under a temporary name, sends Prepared, renames it. Returns 0; 1 if something
 * appeared at the name or the file changed (start again, or report a conflict: the caller's
 * choice); -1 with *err set.
 */
int change_perform(struct session *ses, const struct file_change *c, struct koda_error *err);

#endif
