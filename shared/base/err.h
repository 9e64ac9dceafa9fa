/*
 * Why a call failed, by value: nothing to allocate under ENOMEM, nothing to leak. It is the public
 * struct koda_error, the one type that goes unchanged from a worker's syscall to the embedder.
 *
 * Set once, where it happens, naming the object; wrap only to add what the caller knows.
 * err may be NULL everywhere: then the reason is dropped.
 */
#ifndef KODA_SHARED_BASE_ERR_H
#define KODA_SHARED_BASE_ERR_H

#include "include/koda/sandbox.h"

/* Both return -1, so that failing is one statement. errnum 0: no kernel reason; otherwise its text
 * is appended. err_set clears path and rule. */
int err_set(struct koda_error *err, enum koda_code code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Put "prefix: " before the message. */
int err_wrap(struct koda_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Say what the error is about. Returns -1 too. */
int err_about(struct koda_error *err, const char *path, const char *rule);

void err_clear(struct koda_error *err);

#endif
