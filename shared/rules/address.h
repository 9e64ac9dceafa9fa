/*
 * IP addresses: which ones a name may lead to. Pure.
 *
 * Forms that carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) are judged by what they carry, too.
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
	ADDRESS_METADATA, /* where clouds tell machines their secrets, also outside of link-local */
	ADDRESS_MULTICAST, /* broadcast too */
	ADDRESS_RESERVED, /* documentation, benchmarking, class E, discard, what IANA has given to nobody */
};
/* "loopback", "private" ...: for a sentence ("a loopback address"). */
const char *address_class_name(enum address_class c);

/* AF_INET and AF_INET6; any other family is ADDRESS_RESERVED. A scope id on anything but link-local is ignored. */
enum address_class address_classify(const struct sockaddr *sa);

/* The IPv4 addresses that it carries; how many. */
#define ADDRESS_CARRIED_MAX 3
size_t address_carried(const struct sockaddr *sa, struct sockaddr_in ret[ADDRESS_CARRIED_MAX]);

/* Canonical text as a rule and domain_host_parse have it (IPv6 in brackets). */
void address_text(const struct sockaddr *sa, char ret[DOMAIN_HOST_MAX + 1]);
/* A canonical literal, as domain_host_parse leaves it -> sockaddr. False when it is a name. */
bool address_parse(const char *host, unsigned port, struct sockaddr_storage *ret,
    socklen_t *ret_len);

/* addr/bits or addr. For NO_PROXY and nothing else. */
struct address_prefix {
	int family;
	unsigned char bytes[16];
	unsigned bits;
};
bool address_prefix_parse(const char *text, size_t len, struct address_prefix *ret);
bool address_prefix_contains(const struct address_prefix *p, const struct sockaddr *sa);

#endif
