/*
 * Names of hosts: the grammar of a host as a client writes it, and of a pattern as a rule has it; which patterns name a
 * host. Pure. Who decides what follows: egress_judge (shared/rules/egress).
 *
 * A host has one canonical text: a name of letters, digits, '-' and '_', in lower case, without a trailing dot; a dotted
 * quad; or an IPv6 address in brackets in its shortest form. Anything that some resolver would take for an address and
 * that is none of these (decimal, octal, hexadecimal, short, with a zone) is no host.
 *
 * A pattern is HOST, or "*." and a name for exactly one more label; then an optional ":PORT" (without one: 80 and 443
 * where it allows, every port where it denies); then an optional " any-sni": the TLS server name need not be the host's.
 */
#ifndef KODA_SHARED_RULES_DOMAIN_H
#define KODA_SHARED_RULES_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

#define DOMAIN_NAME_MAX  253 /* RFC 1035, without the trailing dot */
#define DOMAIN_LABEL_MAX 63
#define DOMAIN_HOST_MAX  DOMAIN_NAME_MAX /* of a canonical host, an address too */
#define DOMAIN_PATTERN_MAX                                                                         \
	(DOMAIN_HOST_MAX + (int)sizeof("*.") + (int)sizeof(":65535") + (int)sizeof(" any-sni"))

/* A pattern taken apart; points into its text. */
struct domain {
	const char *name; /* of a wildcard: behind the "*." */
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

/* NULL, or what is wrong with the pattern. */
const char *domain_parse(const char *pattern, struct domain *ret);

/* Lower case, without a trailing dot: in place, after domain_parse. */
void domain_normalise(char *pattern);
bool domain_is_normalised(const char *pattern);

/* Is it of an address, IPv4 or IPv6? */
bool domain_is_address(const struct domain *d);

/* NULL, or what is wrong with these bytes as a host, which need not end with NUL and may hold anything. On success
 * ret is its canonical text. A client's IPv6 address may be in any correct form, with or without brackets where
 * `brackets` is false (SOCKS has none). */
const char *domain_host_parse(const void *bytes, size_t len, bool brackets,
    char ret[DOMAIN_HOST_MAX + 1], enum domain_kind *ret_kind);

/* HOST:PORT as in an authority. default_port 0: the port has to be there. NULL, or what is wrong. */
const char *domain_authority_parse(const void *bytes, size_t len, unsigned default_port,
    char ret[DOMAIN_HOST_MAX + 1], enum domain_kind *ret_kind, unsigned *ret_port);

/* Does the pattern name that canonical host and port? any_port: no port means all (denies). */
bool domain_matches(const struct domain *d, const char *host, size_t len, unsigned port,
    bool any_port);

/* The pattern that names exactly what both name (any-sni only where both say so), into ret. False: nothing. */
bool domain_intersect(const struct domain *a, const struct domain *b,
    char ret[DOMAIN_PATTERN_MAX + 1]);
/* Is all that d names also named by wide? */
bool domain_covers(const struct domain *wide, const struct domain *d);

/*
 * Many patterns, for one look-up of a host. Holds pointers into the patterns' texts, which have to stay.
 */
struct domain_set;
struct domain_set *domain_set_new(char *const *patterns, size_t n, struct koda_error *err);
void domain_set_free(struct domain_set *set);
/* The text of a pattern that names it (with any-sni, if one of those that do has it), or NULL. */
const char *domain_set_find(const struct domain_set *set, const char *host, unsigned port,
    bool any_port, bool *ret_any_sni);

#endif
