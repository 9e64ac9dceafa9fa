/* What the changing operations have in common: guards, the order of telling and acting, and the Outcome. */
#ifndef KODA_WORKER_FILES_CHANGE_H
#define KODA_WORKER_FILES_CHANGE_H

#include "worker/files/replace.h"
#include "worker/session.h"

/* Somebody else was faster so often: a directory that comes and goes is nobody's work. */
#define CHANGE_TRIES PREPARED_MAX
/* The same for those who wait for one another at one file: each round one of them is done. */
#define LOCK_TRIES 64

/* An Outcome, and what it points to. */
struct outcome {
	Koda__Outcome msg;
	uint8_t digest[KODA_DIGEST_BYTES], digest_before[KODA_DIGEST_BYTES];
};
/* For ses->at as it is now: path, type and size of what is there. */
struct outcome *outcome_new(struct session *ses, const struct place *at, struct koda_error *err);

Koda__FileType file_type_of(mode_t mode);
/* 0 for what Read, Write, Remove and Rename handle; -1 saying what it is. */
int refuse_special(const struct place *at, const char *verb, struct koda_error *err);

/* A rename needs no permission on what it replaces; a write does, and so do we. */
int may_write(const struct session *ses, const struct place *at, const char *verb,
    struct koda_error *err);

/* Everything in a guard but the digest; and the digest, of what is at the place, into out. */
int guard_check(const Koda__Guard *guard, const struct place *at, struct koda_error *err);
int guard_digest(struct session *ses, const Koda__Guard *guard, const struct place *at, int fd,
    bool dry, struct outcome *out, struct koda_error *err);
int guard_compare(const Koda__Guard *guard, const struct place *at,
    const uint8_t digest[KODA_DIGEST_BYTES], struct koda_error *err);

/* Open what is to be changed for reading, and be the only one of us who changes it. *ret_fd is the
 * caller's. 0; 1 when it was replaced while we waited (start again); -1 with *err set. */
int open_to_change(struct session *ses, const struct place *at, int *ret_fd,
    struct koda_error *err);

/* Does the place's name still lead to what was found there? */
bool still_the_same(const struct place *at);

/* May each directory that is missing on the way be made? */
int judge_missing(struct session *ses, const struct place *at, struct koda_error *err);

struct change {
	const struct place *at;
	const struct content *content; /* NULL: a directory */
	Koda__Outcome *outcome;
	bool durable;
	bool exclusive; /* never replace */
	bool same;      /* only what was read may be replaced */
};
/* Make it, say Prepared, give it its name. 0; 1 when somebody made what was missing (start again, or a
 * conflict: the caller's choice); -1 with *err set. */
int change_perform(struct session *ses, const struct change *c, struct koda_error *err);

#endif
