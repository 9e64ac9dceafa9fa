/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one order, carries it out and queues the report. stage2 ends on an invalid order, or one
 * without its descriptors, because only a process other than our host would send that. A valid
 * order that cannot be carried out now is answered with Failed.
 */
#ifndef KODA_STAGE2_ORDERS_H
#define KODA_STAGE2_ORDERS_H

#include "stage2/stage2.h"

/* Returns 0, or -1 with *err set: then stage2 ends. */
int orders_handle(struct stage2 *s, const uint8_t *data, size_t len, struct koda_error *err);

#endif
