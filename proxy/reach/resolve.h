/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names -> addresses, with c-ares in the event loop: /etc/hosts, then DNS; no search list, no
 * HOSTALIASES, no environment. resolv.conf is read again after it has changed (a laptop moves).
 * Callers judge a name before they resolve it.
 */
#ifndef KODA_PROXY_REACH_RESOLVE_H
#define KODA_PROXY_REACH_RESOLVE_H

#include "proxy/proxy.h"

#define RESOLVE_ADDRESSES_MAX 32 /* of one name; further ones are ignored */

struct name_resolver *resolver_new(struct proxy *p, struct koda_error *err);
void resolver_free(struct name_resolver *r);

struct resolve_result {
	const char *error; /* NULL, or why there is no address: static */
	bool timed_out;
	/* in the order of RFC 6724, with the port */
	struct sockaddr_storage address[RESOLVE_ADDRESSES_MAX];
	size_t n;
};
typedef void resolve_fn(void *data, const struct resolve_result *result);
struct resolve;
/* Start a look-up on behalf of slot; a slot with too many look-ups cannot use up those of other
 * slots. NULL: too many, or no memory. */
struct resolve *resolve_start(struct name_resolver *r, uint64_t slot, const char *name,
    unsigned port, resolve_fn *fn, void *data);
void resolve_cancel(struct resolve *q);

#endif
