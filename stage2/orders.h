/*
 * One frame in, what it asks for done, and what came of it queued. What is no order at all, or has not the descriptors
 * of one, is the end of stage2: whoever sends that is not our host. An order that makes no sense now is answered with
 * Failed.
 */
#ifndef KODA_STAGE2_ORDERS_H
#define KODA_STAGE2_ORDERS_H

#include "stage2/stage2.h"

/* 0, or -1 with *err set: then stage2 ends. */
int orders_handle(struct stage2 *s, const uint8_t *data, size_t len, struct koda_error *err);

#endif
