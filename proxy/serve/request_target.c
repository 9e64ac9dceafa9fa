/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/request_target.h"

#include <stdio.h>
#include <string.h>

static bool
fault(struct request_fault *ret, int status, const char *rule, bool has_target, const char *why)
{
	ret->status = status;
	ret->rule = rule;
	ret->has_target = has_target;
	snprintf(ret->why, sizeof(ret->why), "%s", why);
	return false;
}

/* Does the request name another host or port than the tunnel's? */
static bool
leaves_tunnel(const struct http_head *h, const struct target *fixed)
{
	if (h->host_differs)
		return true;
	if (!h->has_host_field && h->form != HTTP_FORM_ABSOLUTE)
		return false;
	return strcmp(h->host, fixed->host) != 0 || (h->port != 0 && h->port != fixed->port);
}

static bool
find_fixed(const struct http_head *h, const struct target *fixed, struct target *ret_target,
    struct request_fault *ret_fault)
{
	*ret_target = *fixed;
	if (!leaves_tunnel(h, fixed))
		return true;
	fault(ret_fault, 403, "host", true, "");
	snprintf(ret_fault->why, sizeof(ret_fault->why),
	    "the request is for %.200s, but its connection was opened to %.200s", h->host,
	    fixed->host);
	return false;
}

bool
request_target_find(const struct http_head *h, const struct request_place *place,
    struct target *ret_target, struct request_fault *ret_fault)
{
	if (h->form == HTTP_FORM_AUTHORITY)
		return fault(ret_fault, 400, "malformed", false,
		    "CONNECT must be the first request of its connection");
	if (place->fixed != NULL)
		return find_fixed(h, place->fixed, ret_target, ret_fault);
	if (h->form != HTTP_FORM_ABSOLUTE)
		return fault(ret_fault, 400, "malformed", false,
		    "this is a proxy: a request must name its target, as in GET http://host/path");
	snprintf(ret_target->host, sizeof(ret_target->host), "%s", h->host);
	ret_target->kind = h->host_kind;
	ret_target->port = h->port != 0 ? h->port : 80;
	if (h->host_differs)
		return fault(ret_fault, 400, "host", true,
		    "Host differs from the host of the request's target");
	/* The answer to TRACE is the request as received: with Max-Forwards the user's own proxy
	 * would answer, and return our credentials for it. */
	if (place->credentials && h->method.n == 5 && memcmp(h->method.p, "TRACE", 5) == 0)
		return fault(ret_fault, 403, "method", true,
		    "TRACE is not allowed through the user's own proxy");
	return true;
}
