/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IP addresses: which ones a name may lead to. Pure.
 *
 * Forms that carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) are also
 * judged by the carried address.
 */
#ifndef KODA_SHARED_RULES_ADDRESS_H
#define KODA_SHARED_RULES_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "shared/rules/domain.h"

enum address_class {
	ADDRESS_PUBLIC = 0,
	ADDRESS_UNSPECIFIED,
	ADDRESS_LOOPBACK,
	ADDRESS_PRIVATE, /* RFC 1918, unique local, site-local */
	ADDRESS_SHARED,  /* carrier-grade NAT, 100.64/10 */
	ADDRESS_LINK_LOCAL,
	/* Where clouds serve secrets to machines; also addresses outside link-local. */
	ADDRESS_METADATA,
	ADDRESS_MULTICAST, /* also broadcast */
	/* documentation, benchmarking, class E, discard, what IANA has not allocated */
	ADDRESS_RESERVED,
};
/* "loopback", "private" ...: for a sentence ("a loopback address"). */
const char *address_class_name(enum address_class c);

/* Classify AF_INET and AF_INET6; any other family is ADDRESS_RESERVED. A scope id is ignored
 * except on link-local addresses. */
enum address_class address_classify(const struct sockaddr *sa);

/* Store the IPv4 addresses that sa carries; return how many there are. */
#define ADDRESS_CARRIED_MAX 3
size_t address_carried(const struct sockaddr *sa, struct sockaddr_in ret[ADDRESS_CARRIED_MAX]);

/* Return the length of an AF_INET or AF_INET6 address, for the kernel. */
socklen_t address_length(const struct sockaddr *sa);

/* Write the canonical text, as in a rule and from domain_host_parse() (IPv6 in brackets). */
void address_text(const struct sockaddr *sa, char ret[DOMAIN_HOST_MAX + 1]);
/* Parse a canonical literal, as domain_host_parse() returns it. False when host is a name. */
bool address_parse(const char *host, unsigned port, struct sockaddr_storage *ret,
    socklen_t *ret_len);

/* addr/bits or addr. For NO_PROXY only. */
struct address_prefix {
	int family;
	unsigned char bytes[16];
	unsigned bits;
};
bool address_prefix_parse(const char *text, size_t len, struct address_prefix *ret);
bool address_prefix_contains(const struct address_prefix *p, const struct sockaddr *sa);

#endif
