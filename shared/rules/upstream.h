/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's own proxy: what the host's HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY mean. Pure.
 * The host checks at the start whether the values can be used, so that nothing ever goes out
 * directly because a value was not understood; the egress proxy uses them.
 */
#ifndef KODA_SHARED_RULES_UPSTREAM_H
#define KODA_SHARED_RULES_UPSTREAM_H

#include "shared/rules/address.h"

#define UPSTREAM_CREDENTIALS_MAX 512  /* user and password, decoded */
#define UPSTREAM_VALUE_MAX       8192 /* of one variable */
#define UPSTREAM_NO_PROXY_MAX    512  /* entries */

enum upstream_kind {
	UPSTREAM_DIRECT = 0,
	UPSTREAM_HTTP,   /* CONNECT; absolute form for plain HTTP */
	UPSTREAM_SOCKS5, /* treated as socks5h: the upstream proxy resolves names */
};

struct upstream_proxy {
	enum upstream_kind kind;
	char host[DOMAIN_HOST_MAX + 1]; /* canonical */
	unsigned port;
	char user[UPSTREAM_CREDENTIALS_MAX + 1], password[UPSTREAM_CREDENTIALS_MAX + 1];
	bool has_credentials;
};

struct upstream_variables { /* NULL: not set. An empty value counts as not set. */
	const char *https_proxy, *http_proxy, *all_proxy, *no_proxy;
};

struct upstream {
	/* https: tunnels (https and everything else that is not plain HTTP). http: plain HTTP. */
	struct upstream_proxy https, http;
	struct upstream_exception *except; /* parsed NO_PROXY */
	size_t n_except;
	bool except_all; /* "*" */
};

/* Returns 0, or -1 with *err set (KODA_INVALID: which variable, and what is wrong with it, never
 * its credentials). */
int upstream_parse(const struct upstream_variables *v, struct upstream *ret,
    struct koda_error *err);
void upstream_done(struct upstream *u);

/* Return the way to that canonical host: one of u's two proxies, or NULL for a direct
 * connection. plain: plain HTTP. An entry of NO_PROXY names itself and everything below it,
 * ignoring case, a leading dot and "*."; with ":port" only that port. Or it is an address or
 * CIDR block, which names literals (and `resolved`, when that is not NULL). */
const struct upstream_proxy *upstream_for(const struct upstream *u, const char *host, unsigned port,
    bool plain, const struct sockaddr *resolved);

#endif
