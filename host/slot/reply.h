/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reply -> struct koda_result. A reply is untrusted input: it is validated here, once, and copied,
 * so that the result does not depend on the worker's memory or frames. Pure except for allocation:
 * it sends nothing and opens nothing. A descriptor that comes with a reply is checked by
 * host/slot/received_fd, which reads the mount table.
 */
#ifndef KODA_HOST_SLOT_REPLY_H
#define KODA_HOST_SLOT_REPLY_H

#include "host/slot/request.h"

/* Does a preview contain enough for REQUEST_ACT to bind the operation to what was shown? Returns 0,
 * or -1 with *err set. */
int reply_check_preview(enum koda_op_kind kind, const struct koda_result *seen,
    struct koda_error *err);

/*
 * Take over the final reply to an operation. fd is the descriptor that came with it or -1; it is
 * consumed. Returns 0 when *ret is complete, 1 when more has to be requested (REQUEST_NEXT_PAGE;
 * *ret keeps what has come so far), -1 with *err set: KODA_PROTOCOL if the reply breaks the
 * protocol (the worker cannot be trusted any more), anything else if the operation itself failed.
 */
int reply_take(enum koda_op_kind kind, const Koda__Reply *reply, int fd, struct arena *arena,
    struct koda_result *ret, struct koda_error *err);

/* Fills *ret with the outcome that a Prepared announced. Returns 0, or -1 with *err set. */
int reply_of_prepared(const struct packed *prepared, enum koda_op_kind kind,
    struct koda_result *ret, struct koda_error *err);

/* Fills *ret with a copy of what was read of a file. Returns 0, or -1 with *err set. */
int reply_of_bytes(const char *path, const void *data, size_t len, uint64_t size,
    struct koda_result *ret, struct koda_error *err);

/* Is a Prepared valid for that kind of request? Returns 0, or -1 with *err set. */
int reply_check_prepared(enum koda_op_kind kind, const Koda__Prepared *p, struct koda_error *err);

#endif
