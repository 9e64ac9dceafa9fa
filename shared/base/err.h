/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a call failed, by value: nothing to allocate under ENOMEM, nothing to leak. This is the
 * public struct koda_error, the one type that is passed unchanged from a worker's syscall to the
 * embedder.
 *
 * Set it once, where the failure happens, and name the object. Wrap it only to add what the caller
 * knows. err may be NULL everywhere: then the reason is dropped.
 */
#ifndef KODA_SHARED_BASE_ERR_H
#define KODA_SHARED_BASE_ERR_H

#include "include/koda/sandbox.h"

/*
 * Sets the error and clears its path and rule. If errnum is not 0, the kernel's text for it is
 * appended to the message. Always returns -1, so that the caller can `return err_set(...)`; so do
 * err_wrap() and err_about().
 */
int err_set(struct koda_error *err, enum koda_code code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts "prefix: " before the message. */
int err_wrap(struct koda_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets the path and the rule that the error is about. Either may be NULL. */
int err_about(struct koda_error *err, const char *path, const char *rule);

void err_clear(struct koda_error *err);

#endif
