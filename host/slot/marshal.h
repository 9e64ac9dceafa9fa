/*
 * struct koda_op -> packed Request, Reply -> struct koda_result. A reply is untrusted input: it is
 * validated here, once, and copied; nothing of the worker's memory or frames survives. Pure but for
 * allocation: sends nothing, opens nothing.
 *
 * A packed request is also the host's own copy of what was asked: asking again for the next page,
 * acting after an approval and recovering after a death all start from it.
 */
#ifndef KODA_HOST_SLOT_MARSHAL_H
#define KODA_HOST_SLOT_MARSHAL_H

#include "proto/worker.pb-c.h"
#include "shared/wire/message.h"

struct packed {
	uint8_t *data;
	size_t len;
};
void packed_done(struct packed *p);

/* Does the operation make sense, as far as can be said without looking? */
int marshal_check(const struct koda_op *op, struct koda_error *err);

bool marshal_is_mutation(enum koda_op_kind kind);

/* descriptor: the content goes beside the frame. dry_run: whatever the flags say. */
int marshal_request(const struct koda_op *op, uint64_t id, bool descriptor, bool dry_run,
    struct packed *ret, struct koda_error *err);

/* The same request, with another id and: */
enum marshal_change {
	MARSHAL_ACT,       /* not dry any more, guarded by what the preview found */
	MARSHAL_NEXT_PAGE, /* List behind the last entry of the result, Read behind its last byte */
};
int marshal_again(const struct packed *request, enum marshal_change change, uint64_t id,
    const struct koda_result *so_far, struct packed *ret, struct koda_error *err);

/* Our own packed request, unpacked into the arena. NULL only when memory is short. */
Koda__Request *marshal_unpack_request(const struct packed *request, struct arena *arena);

/* Does a preview say enough for MARSHAL_ACT to bind what was shown? */
int marshal_check_preview(enum koda_op_kind kind, const struct koda_result *seen,
    struct koda_error *err);

/* What a dead worker left of a mutation. */
struct wreck {
	uint64_t request;
	const uint8_t *token;
	const struct packed *prepared; /* the Reply frame that carried Prepared; len 0: none came */
	bool committed;
	const Koda__Verdict *verdict; /* NULL: none came */
};
int marshal_recover(const struct packed *request, uint64_t id, const struct wreck *wreck,
    struct packed *ret, struct koda_error *err);

/*
 * Take over the final reply to an operation. fd is the descriptor that came with it or -1; it is
 * consumed. Returns 0 when *ret is complete, 1 when more is to be asked for (MARSHAL_NEXT_PAGE; *ret
 * keeps what came so far), -1 with *err set: KODA_PROTOCOL when the reply breaks the protocol (the worker
 * is not to be trusted any more), anything else when it is the operation that failed.
 */
int marshal_result(enum koda_op_kind kind, const Koda__Reply *reply, int fd, struct arena *arena,
    struct koda_result *ret, struct koda_error *err);

/* The outcome that a Prepared announced, as the result it has become. */
int marshal_prepared_result(const struct packed *prepared, enum koda_op_kind kind,
    struct koda_result *ret, struct koda_error *err);

/* Does Prepared make sense for that kind of request? */
int marshal_check_prepared(enum koda_op_kind kind, const Koda__Prepared *p, struct koda_error *err);

#endif
