/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections that the commands of a slot made or tried to make, as the proxy reported them: a
 * ring, oldest first. Text is copied and escaped with bytes_show(), whatever its origin.
 */
#ifndef KODA_HOST_EGRESS_CONNECTIONS_H
#define KODA_HOST_EGRESS_CONNECTIONS_H

#include "shared/base/err.h"

struct connections;

/* When capacity is exceeded, the oldest entry is dropped. NULL: no memory. */
struct connections *connections_new(size_t capacity);
void connections_free(struct connections *c);
/* Record a report of the connection `id` of the current proxy: a new connection, or an update of
 * an open one. When memory is short, the report is dropped, which is not an error. */
void connections_report(struct connections *c, uint64_t id, const struct koda_connection *one);
/* The proxy is gone: close every open connection. */
void connections_cut(struct connections *c, const char *why);
/* Connections are numbered from 0 since the start. Return the number of the oldest entry that is
 * kept, and the number of connections so far. */
uint64_t connections_first(const struct connections *c);
uint64_t connections_count(const struct connections *c);
/* NULL: the entry does not exist, or is no longer kept. */
const struct koda_connection *connections_at(const struct connections *c, uint64_t i);

#endif
