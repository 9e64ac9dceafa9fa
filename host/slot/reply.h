/*
 * Reply -> struct koda_result. A reply is untrusted input: it is validated here, once, and copied; nothing of the worker's
 * memory or frames survives. Pure but for allocation: it sends nothing and opens nothing. A descriptor that comes with a
 * reply is checked by host/slot/received_fd, which reads the table of mounts.
 */
#ifndef KODA_HOST_SLOT_REPLY_H
#define KODA_HOST_SLOT_REPLY_H

#include "host/slot/request.h"

/* Does a preview say enough for REQUEST_ACT to bind what was shown? */
int reply_check_preview(enum koda_op_kind kind, const struct koda_result *seen,
    struct koda_error *err);

/*
 * Take over the final reply to an operation. fd is the descriptor that came with it or -1; it is
 * consumed. Returns 0 when *ret is complete, 1 when more is to be asked for (REQUEST_NEXT_PAGE; *ret
 * keeps what came so far), -1 with *err set: KODA_PROTOCOL when the reply breaks the protocol (the worker
 * is not to be trusted any more), anything else when it is the operation that failed.
 */
int reply_take(enum koda_op_kind kind, const Koda__Reply *reply, int fd, struct arena *arena,
    struct koda_result *ret, struct koda_error *err);

/* The outcome that a Prepared announced, as the result it has become. */
int reply_of_prepared(const struct packed *prepared, enum koda_op_kind kind,
    struct koda_result *ret, struct koda_error *err);

/* Does Prepared make sense for that kind of request? */
int reply_check_prepared(enum koda_op_kind kind, const Koda__Prepared *p, struct koda_error *err);

#endif
