/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/cleanup.h"

/* ---- the registries ---- */

/*
 * IANA's special-purpose registries, and the space from which no unicast addresses are allocated.
 * Some blocks of 192.0.0.0/24 and 2001::/23 are globally reachable (relays, DNS64 discovery), but
 * no service has its address there.
 *
 * The longest row decides. A form that carries an IPv4 address is never public, whatever it
 * carries: no server is found there, and a translator or relay would lead to another address than
 * the text shows. ISATAP can be below any prefix: there both the address and the carried one have
 * to be public.
 */
struct row4 {
	uint32_t net;
	unsigned bits;
	enum address_class class;
};

struct row6 {
	uint8_t net[16];
	unsigned bits;
	enum address_class class;
};

#define V4(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

/* clang-format off */
static const struct row4 rows4[] = {
	{ V4(0, 0, 0, 0),         8, ADDRESS_UNSPECIFIED }, /* on Linux: this host */
	{ V4(10, 0, 0, 0),        8, ADDRESS_PRIVATE },
	{ V4(100, 64, 0, 0),     10, ADDRESS_SHARED },
	{ V4(100, 100, 100, 200), 32, ADDRESS_METADATA }, /* Alibaba */
	{ V4(127, 0, 0, 0),       8, ADDRESS_LOOPBACK },
	{ V4(168, 63, 129, 16),  32, ADDRESS_METADATA }, /* Azure: inside its public space */
	{ V4(169, 254, 0, 0),    16, ADDRESS_LINK_LOCAL },
	{ V4(169, 254, 0, 23),   32, ADDRESS_METADATA }, /* Tencent */
	{ V4(169, 254, 42, 42),  32, ADDRESS_METADATA }, /* Scaleway */
	{ V4(169, 254, 169, 253), 32, ADDRESS_METADATA }, /* a cloud's resolver */
	{ V4(169, 254, 169, 254), 32, ADDRESS_METADATA },
	{ V4(169, 254, 170, 2),  32, ADDRESS_METADATA }, /* container credentials */
	{ V4(169, 254, 170, 23), 32, ADDRESS_METADATA },
	{ V4(172, 16, 0, 0),     12, ADDRESS_PRIVATE },
	{ V4(192, 0, 0, 0),      24, ADDRESS_RESERVED },
	{ V4(192, 0, 0, 192),    32, ADDRESS_METADATA }, /* Oracle */
	{ V4(192, 0, 2, 0),      24, ADDRESS_RESERVED },
	{ V4(192, 88, 99, 0),    24, ADDRESS_RESERVED }, /* relays of 6to4 */
	{ V4(192, 168, 0, 0),    16, ADDRESS_PRIVATE },
	{ V4(198, 18, 0, 0),     15, ADDRESS_RESERVED },
	{ V4(198, 51, 100, 0),   24, ADDRESS_RESERVED },
	{ V4(203, 0, 113, 0),    24, ADDRESS_RESERVED },
	{ V4(224, 0, 0, 0),       4, ADDRESS_MULTICAST },
	{ V4(240, 0, 0, 0),       4, ADDRESS_RESERVED },
	{ V4(255, 255, 255, 255), 32, ADDRESS_MULTICAST },
};

/* Outside 2000::/3 nothing is allocated. */
static const struct row6 rows6[] = {
	{ { 0 },                                       0, ADDRESS_RESERVED },
	{ { 0 },                                     128, ADDRESS_UNSPECIFIED },
	{ { [15] = 1 },                              128, ADDRESS_LOOPBACK },
	{ { 0x20 },                                    3, ADDRESS_PUBLIC },
	/* Teredo, benchmarking, ORCHID */
	{ { 0x20, 0x01 },                             23, ADDRESS_RESERVED },
	{ { 0x20, 0x01, 0x0d, 0xb8 },                 32, ADDRESS_RESERVED },
	{ { 0x20, 0x02 },                             16, ADDRESS_RESERVED }, /* 6to4 */
	{ { 0x3f, 0xfe },                             16, ADDRESS_RESERVED }, /* 6bone, returned */
	{ { 0x3f, 0xff },                             20, ADDRESS_RESERVED }, /* documentation */
	{ { 0xfc },                                    7, ADDRESS_PRIVATE },
	{ { 0xfd, 0x00, 0x00, 0x42, [15] = 0x42 },   128, ADDRESS_METADATA }, /* Scaleway */
	/* Oracle */
	{ { 0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe }, 128, ADDRESS_METADATA },
	{ { 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x00, 0x23 }, 128, ADDRESS_METADATA }, /* Amazon */
	{ { 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x53 }, 128, ADDRESS_METADATA },
	{ { 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54 }, 128, ADDRESS_METADATA },
	{ { 0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54 }, 128, ADDRESS_METADATA }, /* Google */
	{ { 0xfe, 0x80 },                             10, ADDRESS_LINK_LOCAL },
	{ { 0xfe, 0xc0 },                             10, ADDRESS_PRIVATE },
	{ { 0xff },                                    8, ADDRESS_MULTICAST },
};

/* Where an IPv6 address carries an IPv4 address. Below 64:ff9b:1::/48 a site may put it
 * elsewhere: this is the usual place, and the form is not public in any case. */
static const struct {
	uint8_t net[16];
	unsigned bits;
	uint8_t at;
	uint8_t flip;
} carriers[] = {
	{ { [10] = 0xff, 0xff },                          96, 12, 0 },    /* mapped */
	{ { [8] = 0xff, 0xff },                           96, 12, 0 },    /* translated, RFC 2765 */
	{ { 0 },                                          96, 12, 0 },    /* compatible */
	{ { 0x00, 0x64, 0xff, 0x9b },                     96, 12, 0 },    /* NAT64 */
	{ { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 },         48, 12, 0 },    /* a site's own NAT64 */
	{ { 0x20, 0x02 },                                 16,  2, 0 },    /* 6to4 */
	{ { 0x20, 0x01 },                                 32, 12, 0xff }, /* Teredo: the client's */
	{ { 0x20, 0x01 },                                 32,  4, 0 },    /* Teredo: the server's */
};
/* clang-format on */

static const char *const class_names[] = {
	[ADDRESS_PUBLIC] = "public",
	[ADDRESS_UNSPECIFIED] = "unspecified",
	[ADDRESS_LOOPBACK] = "loopback",
	[ADDRESS_PRIVATE] = "private",
	[ADDRESS_SHARED] = "carrier-grade NAT",
	[ADDRESS_LINK_LOCAL] = "link-local",
	[ADDRESS_METADATA] = "cloud metadata",
	[ADDRESS_MULTICAST] = "multicast",
	[ADDRESS_RESERVED] = "reserved",
};

const char *
address_class_name(enum address_class c)
{
	return (size_t)c < N_ELEMENTS(class_names) ? class_names[c] : "reserved";
}

static bool
has_prefix(const uint8_t *bytes, const uint8_t *net, unsigned bits)
{
	const unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(bytes, net, whole) == 0 &&
	    (rest == 0 || (bytes[whole] ^ net[whole]) >> (8 - rest) == 0);
}

static enum address_class
classify4(const uint8_t bytes[4])
{
	const uint32_t addr = V4(bytes[0], bytes[1], bytes[2], bytes[3]);
	const struct row4 *best = NULL;

	for (size_t i = 0; i < N_ELEMENTS(rows4); i++) {
		if ((addr ^ rows4[i].net) >> (32 - rows4[i].bits) == 0 &&
		    (best == NULL || rows4[i].bits > best->bits))
			best = &rows4[i];
	}
	return best != NULL ? best->class : ADDRESS_PUBLIC;
}

static enum address_class
classify6(const uint8_t bytes[16])
{
	const struct row6 *best = &rows6[0];

	for (size_t i = 1; i < N_ELEMENTS(rows6); i++) {
		if (has_prefix(bytes, rows6[i].net, rows6[i].bits) && rows6[i].bits > best->bits)
			best = &rows6[i];
	}
	return best->class;
}

/* ISATAP's interface identifier, below any prefix: 00-00-5e-fe and the address; the
 * second-lowest bit of the first byte is set if that is a public one. */
static bool
is_isatap(const uint8_t bytes[16])
{
	return (bytes[8] & ~2u) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe;
}

static const uint8_t *
bytes_of(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return (const uint8_t *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	if (sa->sa_family == AF_INET6)
		return (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	return NULL;
}

size_t
address_carried(const struct sockaddr *sa, struct sockaddr_in ret[ADDRESS_CARRIED_MAX])
{
	const uint8_t *bytes = bytes_of(sa);
	size_t n = 0;

	if (sa->sa_family != AF_INET6)
		return 0;
	/* "::" and "::1" carry nothing. */
	if (classify6(bytes) == ADDRESS_UNSPECIFIED || classify6(bytes) == ADDRESS_LOOPBACK)
		return 0;
	for (size_t i = 0; i <= N_ELEMENTS(carriers) && n < ADDRESS_CARRIED_MAX; i++) {
		uint8_t four[4];

		if (i == N_ELEMENTS(carriers)
			? !is_isatap(bytes)
			: !has_prefix(bytes, carriers[i].net, carriers[i].bits))
			continue;
		for (size_t k = 0; k < sizeof(four); k++)
			four[k] = i == N_ELEMENTS(carriers)
			    ? bytes[12 + k]
			    : bytes[carriers[i].at + k] ^ carriers[i].flip;
		ret[n] = (struct sockaddr_in){ .sin_family = AF_INET };
		memcpy(&ret[n++].sin_addr, four, sizeof(four));
	}
	return n;
}

enum address_class
address_classify(const struct sockaddr *sa)
{
	struct sockaddr_in carried[ADDRESS_CARRIED_MAX];
	const uint8_t *bytes = bytes_of(sa);
	enum address_class class;
	size_t n;

	if (bytes == NULL)
		return ADDRESS_RESERVED;
	if (sa->sa_family == AF_INET)
		return classify4(bytes);
	class = classify6(bytes);
	if (class != ADDRESS_PUBLIC && class != ADDRESS_RESERVED)
		return class;
	n = address_carried(sa, carried);
	for (size_t i = 0; i < n; i++) {
		enum address_class c = classify4((const uint8_t *)&carried[i].sin_addr);

		if (c != ADDRESS_PUBLIC)
			return c;
	}
	return class;
}

/* ---- texts ---- */

void
address_text(const struct sockaddr *sa, char ret[DOMAIN_HOST_MAX + 1])
{
	const uint8_t *bytes = bytes_of(sa);
	char text[INET6_ADDRSTRLEN];

	ret[0] = '\0';
	if (bytes == NULL || inet_ntop(sa->sa_family, bytes, text, sizeof(text)) == NULL)
		return;
	snprintf(ret, DOMAIN_HOST_MAX + 1, sa->sa_family == AF_INET6 ? "[%s]" : "%s", text);
}

socklen_t
address_length(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool
address_parse(const char *host, unsigned port, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	char text[INET6_ADDRSTRLEN];
	size_t len = strlen(host);

	if (host[0] == '[') {
		if (len < 2 || len - 2 >= sizeof(text) || host[len - 1] != ']')
			return false;
		memcpy(text, host + 1, len - 2);
		text[len - 2] = '\0';
		if (inet_pton(AF_INET6, text, &in6.sin6_addr) != 1)
			return false;
		memset(ret, 0, sizeof(*ret));
		memcpy(ret, &in6, sizeof(in6));
		*ret_len = sizeof(in6);
		return true;
	}
	if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
		return false;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &in, sizeof(in));
	*ret_len = sizeof(in);
	return true;
}

/* ---- prefixes ---- */

bool
address_prefix_parse(const char *text, size_t len, struct address_prefix *ret)
{
	const char *const end = text + len, *slash = memchr(text, '/', len);
	size_t n = (size_t)((slash != NULL ? slash : end) - text);
	struct address_prefix p = { 0 };
	char copy[INET6_ADDRSTRLEN];
	unsigned bits = 0;

	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
		p.family = AF_INET6; /* only IPv6 has brackets */
	}
	if (n == 0 || n >= sizeof(copy) || memchr(text, '\0', n) != NULL)
		return false;
	memcpy(copy, text, n);
	copy[n] = '\0';
	if (p.family == 0 && inet_pton(AF_INET, copy, p.bytes) == 1)
		p.family = AF_INET;
	else if (inet_pton(AF_INET6, copy, p.bytes) == 1)
		p.family = AF_INET6;
	else
		return false;
	p.bits = p.family == AF_INET ? 32 : 128;
	if (slash != NULL) {
		const char *s = slash + 1;

		if (s == end || end - s > 3 || (*s == '0' && end - s > 1))
			return false;
		for (; s < end; s++) {
			if (*s < '0' || *s > '9')
				return false;
			bits = bits * 10 + (unsigned)(*s - '0');
		}
		if (bits > p.bits)
			return false;
		p.bits = bits;
	}
	*ret = p;
	return true;
}

bool
address_prefix_contains(const struct address_prefix *p, const struct sockaddr *sa)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
	const uint8_t *bytes = bytes_of(sa);

	if (bytes == NULL)
		return false;
	/* The mapped form leads to the same host. */
	if (p->family == AF_INET && sa->sa_family == AF_INET6 &&
	    memcmp(bytes, mapped, sizeof(mapped)) == 0)
		return has_prefix(bytes + sizeof(mapped), p->bytes, p->bits);
	return sa->sa_family == p->family && has_prefix(bytes, p->bytes, p->bits);
}
