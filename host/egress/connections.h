/*
 * What commands of a slot reached, or tried to, as the proxy reported it: a ring, oldest first. Text is copied, and shown
 * as bytes_show has it, whoever it came from.
 */
#ifndef KODA_HOST_EGRESS_CONNECTIONS_H
#define KODA_HOST_EGRESS_CONNECTIONS_H

#include "shared/base/err.h"

struct connections;

/* capacity: the oldest goes beyond. NULL: no memory. */
struct connections *connections_new(size_t capacity);
void connections_free(struct connections *c);
/* A report of the connection `id` of the proxy that serves now: a new one, or what became of one that is open. Losing one
 * because memory is short is no error. */
void connections_report(struct connections *c, uint64_t id, const struct koda_connection *one);
/* The proxy is gone, and with it what was open. */
void connections_cut(struct connections *c, const char *why);
/* Of all there ever were: the oldest that is kept, and how many. */
uint64_t connections_first(const struct connections *c);
uint64_t connections_count(const struct connections *c);
/* NULL: it is not kept (any more). */
const struct koda_connection *connections_at(const struct connections *c, uint64_t i);

#endif
