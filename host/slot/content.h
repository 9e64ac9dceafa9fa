/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a write that does not fit in a frame: a memfd that no process can change any
 * more. */
#ifndef KODA_HOST_SLOT_CONTENT_H
#define KODA_HOST_SLOT_CONTENT_H

#include "include/koda/sandbox.h"

/* Copies op->data, or checks and duplicates op->fd. Returns the descriptor, which the caller owns,
 * or -1 with *err set. */
int content_freeze(const struct koda_op *op, struct koda_error *err);

#endif
