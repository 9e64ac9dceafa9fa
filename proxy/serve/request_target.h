/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of an HTTP request, from its head: the one that the request names or, inside a tunnel,
 * the tunnel's, which the request has to agree with. Also refuses what may not be asked for in this
 * way. Pure: whether the target may be reached is the gate's decision.
 */
#ifndef KODA_PROXY_SERVE_REQUEST_TARGET_H
#define KODA_PROXY_SERVE_REQUEST_TARGET_H

#include "proxy/accept/http.h"
#include "proxy/target.h"
#include "shared/rules/egress.h"

struct request_place {
	const struct target *fixed; /* the tunnel's target; NULL: each request names its own */
	/* The user's own proxy may get the request, with the user's credentials. */
	bool credentials;
};

struct request_fault {
	int status; /* HTTP */
	const char *rule;
	char why[EGRESS_SENTENCE_MAX];
	bool has_target; /* *ret_target is set: it is the target that is refused */
};

/* Find the target. False: the request is refused, as *ret_fault says. */
bool request_target_find(const struct http_head *h, const struct request_place *place,
    struct target *ret_target, struct request_fault *ret_fault);

#endif
