/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names: the grammar of a host as a client writes it and of a pattern in a rule, and which
 * patterns match a host. Pure. egress_judge() (shared/rules/egress) decides what follows from a
 * match.
 *
 * A host has one canonical text: a name of letters, digits, '-' and '_', in lower case, without a
 * trailing dot; a dotted quad; or an IPv6 address in brackets in its shortest form. Anything else
 * that some resolver would take for an address (decimal, octal, hexadecimal, short, with a zone) is
 * not a valid host.
 *
 * A pattern is HOST, or "*." and a name, which matches exactly one more label; then an optional
 * ":PORT" (default: 80 and 443 in a rule that allows, every port in a rule that denies); then an
 * optional " any-sni": the TLS server name may differ from the host.
 */
#ifndef KODA_SHARED_RULES_DOMAIN_H
#define KODA_SHARED_RULES_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

#define DOMAIN_NAME_MAX  253 /* RFC 1035, without the trailing dot */
#define DOMAIN_LABEL_MAX 63
#define DOMAIN_HOST_MAX  DOMAIN_NAME_MAX /* of a canonical host, also of an address */
#define DOMAIN_PATTERN_MAX                                                                         \
	(DOMAIN_HOST_MAX + (int)sizeof("*.") + (int)sizeof(":65535") + (int)sizeof(" any-sni"))

/* A parsed pattern; points into the pattern's text. */
struct domain {
	const char *name; /* of a wildcard: after the "*." */
	size_t len;       /* without a trailing dot */
	bool wildcard;
	bool any_sni;
	unsigned port; /* 0: none */
};

enum domain_kind {
	DOMAIN_NAME,
	DOMAIN_IPV4,
	DOMAIN_IPV6,
};

/* Parse a pattern. Returns NULL, or what is wrong with the pattern. */
const char *domain_parse(const char *pattern, struct domain *ret);

/* Make the pattern lower case, without a trailing dot, in place. Call after domain_parse(). */
void domain_normalise(char *pattern);
bool domain_is_normalised(const char *pattern);

/* Is the pattern an address, IPv4 or IPv6? */
bool domain_is_address(const struct domain *d);

/* Parse a host. The bytes need not end with NUL and may hold anything. Returns NULL, or what is
 * wrong with them. On success ret is the canonical text. A client's IPv6 address may be in any
 * correct form; it needs no brackets where `brackets` is false (SOCKS has none). */
const char *domain_host_parse(const void *bytes, size_t len, bool brackets,
    char ret[DOMAIN_HOST_MAX + 1], enum domain_kind *ret_kind);

/* Parse HOST:PORT as in an authority. default_port 0: the port is required. Returns NULL, or
 * what is wrong. */
const char *domain_authority_parse(const void *bytes, size_t len, unsigned default_port,
    char ret[DOMAIN_HOST_MAX + 1], enum domain_kind *ret_kind, unsigned *ret_port);

/* Does the pattern match that canonical host and port? any_port: a pattern without a port
 * matches every port (rules that deny). */
bool domain_matches(const struct domain *d, const char *host, size_t len, unsigned port,
    bool any_port);

/* Write to ret the pattern that matches exactly what both match (any-sni only if both have it).
 * False: they have nothing in common. */
bool domain_intersect(const struct domain *a, const struct domain *b,
    char ret[DOMAIN_PATTERN_MAX + 1]);
/* Does `wide` match everything that d matches? */
bool domain_covers(const struct domain *wide, const struct domain *d);

/*
 * A set of patterns for fast look-up of a host. It keeps pointers to the patterns' texts, which
 * must outlive it.
 */
struct domain_set;
struct domain_set *domain_set_new(char *const *patterns, size_t n, struct koda_error *err);
void domain_set_free(struct domain_set *set);
/* Return the text of a pattern that matches the host (one with any-sni if there is one), or
 * NULL. */
const char *domain_set_find(const struct domain_set *set, const char *host, unsigned port,
    bool any_port, bool *ret_any_sni);

#endif
