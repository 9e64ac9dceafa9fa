/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct koda_op -> packed Request. Pure except for allocation.
 *
 * A packed request is also the host's own copy of the operation: requests for the next page, the
 * real operation after an approval, and recovery after the worker's death all start from it.
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

/* Is the operation valid, as far as that can be checked without looking at the file system? Returns
 * 0, or -1 with *err set. */
int request_check(const struct koda_op *op, struct koda_error *err);

bool request_is_mutation(enum koda_op_kind kind);

/* descriptor: the content is sent beside the frame. dry_run: true makes it a dry run even if the
 * operation's flags do not. On 0 the caller owns *ret. */
int request_pack(const struct koda_op *op, uint64_t id, bool descriptor, bool dry_run,
    struct packed *ret, struct koda_error *err);

/* Packs the same request again with another id and one change. On 0 the caller owns *ret. */
enum request_change {
	REQUEST_ACT,       /* no dry run any more; guarded by what the preview found */
	REQUEST_NEXT_PAGE, /* List after the last entry of the result, Read after its last byte */
};
int request_again(const struct packed *request, enum request_change change, uint64_t id,
    const struct koda_result *so_far, struct packed *ret, struct koda_error *err);

/* Unpacks a request that the host packed; the result lives in the arena. NULL only when memory is
 * short. */
Koda__Request *request_unpack(const struct packed *request, struct arena *arena);

/* What is known of a mutation whose worker died. */
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
