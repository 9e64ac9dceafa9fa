/*
 * struct koda_op -> packed Request. Pure but for allocation.
 *
 * A packed request is also the host's own copy of what was asked: asking again for the next page, acting after an
 * approval and recovering after a death all start from it.
 */
#ifndef KODA_HOST_SLOT_REQUEST_H
#define KODA_HOST_SLOT_REQUEST_H

#include "proto/worker.pb-c.h"
#include "shared/wire/message.h"

struct packed {
	uint8_t *data;
	size_t len;
};
void packed_done(struct packed *p);

/* Does the operation make sense, as far as can be said without looking? */
int request_check(const struct koda_op *op, struct koda_error *err);

bool request_is_mutation(enum koda_op_kind kind);

/* descriptor: the content goes beside the frame. dry_run: whatever the flags say. */
int request_pack(const struct koda_op *op, uint64_t id, bool descriptor, bool dry_run,
    struct packed *ret, struct koda_error *err);

/* The same request, with another id and: */
enum request_change {
	REQUEST_ACT,       /* not dry any more, guarded by what the preview found */
	REQUEST_NEXT_PAGE, /* List behind the last entry of the result, Read behind its last byte */
};
int request_again(const struct packed *request, enum request_change change, uint64_t id,
    const struct koda_result *so_far, struct packed *ret, struct koda_error *err);

/* Our own packed request, unpacked into the arena. NULL only when memory is short. */
Koda__Request *request_unpack(const struct packed *request, struct arena *arena);

/* What a dead worker left of a mutation. */
struct wreck {
	uint64_t request;
	const uint8_t *token;
	const struct packed *prepared; /* the Reply frame that carried Prepared; len 0: none came */
	bool committed;
	const Koda__Verdict *verdict; /* NULL: none came */
};
int request_recover(const struct packed *request, uint64_t id, const struct wreck *wreck,
    struct packed *ret, struct koda_error *err);

#endif
