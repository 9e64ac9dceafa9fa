/*
 * Names -> addresses, with c-ares in the loop: /etc/hosts, then DNS; no search list, no HOSTALIASES, no environment.
 * resolv.conf is read again when it has changed (a laptop moves). Never asked before the name was judged.
 */
#ifndef KODA_PROXY_REACH_RESOLVE_H
#define KODA_PROXY_REACH_RESOLVE_H

#include "proxy/proxy.h"

#define RESOLVE_ADDRESSES_MAX 32 /* of one name, that are looked at */

struct resolver *resolver_new(struct proxy *p, struct koda_error *err);
void resolver_free(struct resolver *r);

struct resolve_result {
	const char *error; /* NULL, or why there is none: static */
	bool timed_out;
	struct sockaddr_storage
	    address[RESOLVE_ADDRESSES_MAX]; /* in the order of RFC 6724, with the port */
	size_t n;
};
typedef void resolve_fn(void *data, const struct resolve_result *result);
struct resolve;
/* slot: on whose behalf; one that asks for too much takes nothing from the others. NULL: it is too much, or no memory. */
struct resolve *resolve_start(struct resolver *r, uint64_t slot, const char *name, unsigned port,
    resolve_fn *fn, void *data);
void resolve_cancel(struct resolve *q);

#endif
