/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/domain.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/cleanup.h"

static const char any_sni_suffix[] = " any-sni";

/* ---- bytes ---- */

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_ldh(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	    c == '_';
}

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static const char *
port_parse(const char *s, size_t len, unsigned *ret)
{
	unsigned port = 0;

	for (size_t i = 0; i < len; i++) {
		if (!is_digit(s[i]))
			return "its port is not a number";
	}
	if (len == 0 || len > 5 || s[0] == '0')
		return "its port is not between 1 and 65535";
	for (size_t i = 0; i < len; i++)
		port = port * 10 + (unsigned)(s[i] - '0');
	if (port > 65535)
		return "its port is not between 1 and 65535";
	*ret = port;
	return NULL;
}

/* Would some resolver take a name with that last label for a number? inet_aton() accepts 0x7f.1. */
static bool
ends_in_number(const char *label, size_t len)
{
	size_t digits = 0;

	while (digits < len && is_digit(label[digits]))
		digits++;
	if (digits == len)
		return true;
	if (len < 2 || label[0] != '0' || (label[1] != 'x' && label[1] != 'X'))
		return false;
	for (size_t i = 2; i < len; i++) {
		if (!is_digit(label[i]) && !((label[i] | 0x20) >= 'a' && (label[i] | 0x20) <= 'f'))
			return false;
	}
	return true;
}

/* Check a name without a trailing dot. *ret_quad: it is a dotted quad. Returns NULL, or what is
 * wrong. */
static const char *
name_parse(const char *name, size_t len, bool wildcard, bool *ret_quad)
{
	const char *label = name;
	char quad[INET_ADDRSTRLEN];
	struct in_addr addr;

	*ret_quad = false;
	if (len == 0)
		return "it has no name";
	if (len + (wildcard ? 2 : 0) > DOMAIN_NAME_MAX)
		return "it is longer than a domain name can be";
	for (size_t i = 0; i <= len; i++) {
		size_t n = (size_t)(name + i - label);

		if (i < len && name[i] != '.') {
			if (name[i] == '*')
				return "a '*' can only be the whole first label of a rule";
			if (name[i] == '/')
				return "it must be a host name, without a path";
			if ((unsigned char)name[i] >= 0x80)
				return "only ASCII is allowed: an international name has an xn-- form";
			if (!is_ldh(name[i]))
				return "it has a character that no host name has";
			continue;
		}
		if (n == 0)
			return "it has an empty label";
		if (n > DOMAIN_LABEL_MAX)
			return "it has a label of more than 63 characters";
		if (label[0] == '-' || label[n - 1] == '-')
			return "a label begins or ends with '-'";
		if (i < len)
			label = name + i + 1;
	}
	if (!ends_in_number(label, (size_t)(name + len - label)))
		return NULL;
	if (wildcard)
		return "an address cannot have a wildcard";
	if (len >= sizeof(quad))
		return "it looks like an address but is not a valid one";
	memcpy(quad, name, len);
	quad[len] = '\0';
	/* Four decimal numbers without leading zeros; any other name that ends in a number is
	 * unsafe. */
	if (inet_pton(AF_INET, quad, &addr) != 1)
		return "it looks like an address but is not a valid one";
	*ret_quad = true;
	return NULL;
}

/* Parse the text between the brackets, which may hold anything; ret is its shortest form,
 * without brackets. Returns NULL, or what is wrong. */
static const char *
address6_parse(const char *s, size_t len, char ret[INET6_ADDRSTRLEN])
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	if (len >= sizeof(text) || memchr(s, '\0', len) != NULL)
		return "it has no IPv6 address between the brackets";
	memcpy(text, s, len);
	text[len] = '\0';
	if (inet_pton(AF_INET6, text, &addr) != 1 ||
	    inet_ntop(AF_INET6, &addr, ret, INET6_ADDRSTRLEN) == NULL)
		return "it has no IPv6 address between the brackets";
	return NULL;
}

/* ---- patterns ---- */

static const char *
pattern6_parse(const char *s, size_t len, struct domain *d, size_t *ret_len)
{
	const char *end = memchr(s, ']', len), *why;
	char shortest[INET6_ADDRSTRLEN];
	size_t n;

	if (end == NULL)
		return "it has '[' without ']'";
	n = (size_t)(end - s - 1);
	why = address6_parse(s + 1, n, shortest);
	if (why != NULL)
		return why;
	/* An address must have a single text, because texts are compared. */
	if (strlen(shortest) != n || strncasecmp(shortest, s + 1, n) != 0)
		return "its IPv6 address is not in the shortest form";
	d->name = s;
	d->len = *ret_len = n + 2;
	return NULL;
}

const char *
domain_parse(const char *pattern, struct domain *ret)
{
	const size_t suffix = sizeof(any_sni_suffix) - 1;
	size_t len = strlen(pattern), n;
	struct domain d = { 0 };
	const char *why, *rest;
	bool quad;

	if (len == 0)
		return "it is empty";
	if (len > suffix && strcasecmp(pattern + len - suffix, any_sni_suffix) == 0) {
		d.any_sni = true;
		len -= suffix;
	}
	if (pattern[0] == '*' && (len == 1 || pattern[1] == ':'))
		return "'*' alone would match every host: use any_domain for that";
	if (pattern[0] == '[') {
		why = pattern6_parse(pattern, len, &d, &n);
		if (why != NULL)
			return why;
		rest = pattern + n;
		if (n < len && *rest != ':')
			return "it has something after the address";
	} else {
		d.wildcard = strncmp(pattern, "*.", 2) == 0;
		d.name = d.wildcard ? pattern + 2 : pattern;
		rest = memchr(pattern, ':', len);
		if (rest == NULL)
			rest = pattern + len;
		else if (memchr(rest + 1, ':', (size_t)(pattern + len - rest - 1)) != NULL)
			return "it has two ':' (an IPv6 address is written in brackets)";
		d.len = (size_t)(rest - d.name);
		if (d.len > 1 && d.name[d.len - 1] == '.')
			d.len--;
		why = name_parse(d.name, d.len, d.wildcard, &quad);
		if (why != NULL)
			return why;
	}
	if (rest < pattern + len) {
		why = port_parse(rest + 1, (size_t)(pattern + len - rest - 1), &d.port);
		if (why != NULL)
			return why;
	}
	*ret = d;
	return NULL;
}

void
domain_normalise(char *pattern)
{
	size_t len;

	for (char *s = pattern; *s != '\0'; s++)
		*s = lower(*s);
	if (pattern[0] == '[')
		return;
	len = strcspn(pattern, ": ");
	if (len > 0 && pattern[len - 1] == '.')
		memmove(pattern + len - 1, pattern + len, strlen(pattern + len) + 1);
}

bool
domain_is_normalised(const char *pattern)
{
	size_t len = strcspn(pattern, ": ");

	for (const char *s = pattern; *s != '\0'; s++) {
		if (*s != lower(*s))
			return false;
	}
	return pattern[0] == '[' || len == 0 || pattern[len - 1] != '.';
}

bool
domain_is_address(const struct domain *d)
{
	const char *label = memrchr(d->name, '.', d->len);

	label = label != NULL ? label + 1 : d->name;
	/* domain_parse() has refused names that end in a number and are not an address. */
	return d->name[0] == '[' || ends_in_number(label, (size_t)(d->name + d->len - label));
}

/* ---- hosts ---- */

const char *
domain_host_parse(const void *bytes, size_t len, bool brackets, char ret[DOMAIN_HOST_MAX + 1],
    enum domain_kind *ret_kind)
{
	const char *s = bytes, *why;
	char address[INET6_ADDRSTRLEN];
	bool quad;

	if (len == 0)
		return "it is empty";
	if (s[0] == '[' && s[len - 1] != ']')
		return "it has '[' without ']'";
	if (s[0] == '[' || (!brackets && memchr(s, ':', len) != NULL)) {
		size_t n = s[0] == '[' ? 1 : 0;

		why = address6_parse(s + n, len - 2 * n, address);
		if (why != NULL)
			return why;
		snprintf(ret, DOMAIN_HOST_MAX + 1, "[%s]", address);
		*ret_kind = DOMAIN_IPV6;
		return NULL;
	}
	if (len > 1 && s[len - 1] == '.')
		len--;
	why = name_parse(s, len, false, &quad);
	if (why != NULL)
		return why;
	for (size_t i = 0; i < len; i++)
		ret[i] = lower(s[i]);
	ret[len] = '\0';
	*ret_kind = quad ? DOMAIN_IPV4 : DOMAIN_NAME;
	return NULL;
}

const char *
domain_authority_parse(const void *bytes, size_t len, unsigned default_port,
    char ret[DOMAIN_HOST_MAX + 1], enum domain_kind *ret_kind, unsigned *ret_port)
{
	const char *s = bytes, *host_end, *why;
	char host[DOMAIN_HOST_MAX + 1];
	unsigned port = default_port;
	enum domain_kind kind;

	if (len == 0)
		return "it is empty";
	if (s[0] == '[') {
		host_end = memchr(s, ']', len);
		if (host_end == NULL)
			return "it has '[' without ']'";
		host_end++;
		if (host_end < s + len && *host_end != ':')
			return "it has something after the address";
	} else {
		host_end = memchr(s, ':', len);
		if (host_end == NULL)
			host_end = s + len;
	}
	if (host_end < s + len) {
		why = port_parse(host_end + 1, (size_t)(s + len - host_end - 1), &port);
		if (why != NULL)
			return why;
	}
	why = domain_host_parse(s, (size_t)(host_end - s), true, host, &kind);
	if (why != NULL)
		return why;
	if (port == 0)
		return "it has no port";
	strcpy(ret, host);
	*ret_kind = kind;
	*ret_port = port;
	return NULL;
}

/* ---- matching ---- */

/* Does d name that host: exactly, or as the wildcard "*.<d>"? */
static bool
names(const struct domain *d, const char *host, size_t len)
{
	const char *dot;

	if (!d->wildcard)
		return d->len == len && memcmp(d->name, host, len) == 0;
	dot = memchr(host, '.', len);
	if (dot == NULL || dot == host)
		return false;
	dot++;
	return d->len == len - (size_t)(dot - host) && memcmp(d->name, dot, d->len) == 0;
}

static bool
port_in(unsigned rule, unsigned port)
{
	return rule != 0 ? port == rule : port == 80 || port == 443;
}

bool
domain_matches(const struct domain *d, const char *host, size_t len, unsigned port, bool any_port)
{
	if (port == 0 || port > 65535)
		return false;
	if (!(any_port && d->port == 0) && !port_in(d->port, port))
		return false;
	return names(d, host, len);
}

bool
domain_intersect(const struct domain *a, const struct domain *b, char ret[DOMAIN_PATTERN_MAX + 1])
{
	const struct domain *narrow = a->wildcard ? b : a, *wide = a->wildcard ? a : b;
	unsigned port;
	int n;

	if (narrow->wildcard) {
		/* A wildcard matches exactly one more label: two wildcards are equal or have
		 * nothing in common. */
		if (narrow->len != wide->len || memcmp(narrow->name, wide->name, wide->len) != 0)
			return false;
	} else if (!names(wide, narrow->name, narrow->len)) {
		return false;
	}
	port = a->port != 0 ? a->port : b->port;
	if (port != 0 && (!port_in(a->port, port) || !port_in(b->port, port)))
		return false;
	n = snprintf(ret, DOMAIN_PATTERN_MAX + 1, "%s%.*s", narrow->wildcard ? "*." : "",
	    (int)narrow->len, narrow->name);
	if (port != 0)
		n += snprintf(ret + n, DOMAIN_PATTERN_MAX + 1 - (size_t)n, ":%u", port);
	if (a->any_sni && b->any_sni)
		snprintf(ret + n, DOMAIN_PATTERN_MAX + 1 - (size_t)n, "%s", any_sni_suffix);
	return true;
}

bool
domain_covers(const struct domain *wide, const struct domain *d)
{
	if (d->any_sni && !wide->any_sni)
		return false;
	if (wide->port != d->port && !(wide->port == 0 && port_in(0, d->port)))
		return false;
	if (d->wildcard)
		return wide->wildcard && wide->len == d->len &&
		    memcmp(wide->name, d->name, d->len) == 0;
	return names(wide, d->name, d->len);
}

/* ---- sets of patterns ---- */

/* A pattern matches a host by its whole name or by everything after its first label, with or
 * without a port. So a look-up tries four keys, however many patterns there are. */
struct domain_slot {
	const char *text; /* NULL: empty */
	struct domain d;
	uint32_t hash;
};

struct domain_set {
	size_t mask; /* number of slots, a power of two, minus one */
	struct domain_slot slots[];
};

/* FNV-1a, from the last byte backwards: the hash of what follows the first label is an
 * intermediate result. The stored keys are a policy's, so only a trusted party could make them
 * collide. */
static uint32_t
hash_more(uint32_t h, const char *s, size_t len)
{
	while (len > 0)
		h = (h ^ (unsigned char)s[--len]) * 16777619u;
	return h;
}

#define HASH_BEGIN 2166136261u

static uint32_t
hash_end(uint32_t h, bool wildcard, unsigned port)
{
	h = (h ^ (port << 1 | wildcard)) * 0x9e3779b1u;
	return h ^ h >> 16;
}

/* Return the slot with that key, or the empty one where it belongs. */
static const struct domain_slot *
slot_of(const struct domain_set *set, uint32_t hash, const char *name, size_t len, bool wildcard,
    unsigned port)
{
	for (size_t i = hash & set->mask;; i = (i + 1) & set->mask) {
		const struct domain_slot *s = &set->slots[i];

		if (s->text == NULL ||
		    (s->hash == hash && s->d.len == len && s->d.port == port &&
			s->d.wildcard == wildcard && memcmp(s->d.name, name, len) == 0))
			return s;
	}
}

struct domain_set *
domain_set_new(char *const *patterns, size_t n, struct koda_error *err)
{
	struct domain_set *set;
	size_t room = 4;

	while (room < 2 * n)
		room *= 2;
	set = calloc(1, sizeof(*set) + room * sizeof(set->slots[0]));
	if (set == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "domains");
		return NULL;
	}
	set->mask = room - 1;
	for (size_t i = 0; i < n; i++) {
		const char *why;
		struct domain d;
		struct domain_slot *s;
		uint32_t hash;

		why = domain_parse(patterns[i], &d);
		if (why != NULL) {
			free(set);
			err_set(err, KODA_INVALID, 0, "a domain in a rule is invalid: %s", why);
			return NULL;
		}
		hash = hash_end(hash_more(HASH_BEGIN, d.name, d.len), d.wildcard, d.port);
		s = (struct domain_slot *)slot_of(set, hash, d.name, d.len, d.wildcard, d.port);
		/* Of two patterns that differ only in any-sni, keep the one with it: it matches
		 * more. */
		if (s->text == NULL || d.any_sni)
			*s = (struct domain_slot){ patterns[i], d, hash };
	}
	return set;
}

void
domain_set_free(struct domain_set *set)
{
	free(set);
}

const char *
domain_set_find(const struct domain_set *set, const char *host, unsigned port, bool any_port,
    bool *ret_any_sni)
{
	const size_t len = strlen(host);
	const char *dot = memchr(host, '.', len), *found = NULL;
	bool any_sni = false;

	if (port > 0 && port <= 65535) {
		const size_t below = dot != NULL && dot > host ? (size_t)(dot + 1 - host) : 0;
		const uint32_t h_below = hash_more(HASH_BEGIN, host + below, len - below);
		const uint32_t h = hash_more(h_below, host, below);
		const bool without = any_port || port_in(0, port);

		for (unsigned i = 0; i < 4 && !any_sni; i++) {
			const bool wildcard = i >= 2;
			const unsigned p = i % 2 == 0 ? port : 0;
			const char *name = wildcard ? host + below : host;
			const struct domain_slot *s;

			if ((wildcard && below == 0) || (p == 0 && !without))
				continue;
			s = slot_of(set, hash_end(wildcard ? h_below : h, wildcard, p), name,
			    len - (size_t)(name - host), wildcard, p);
			if (s->text == NULL)
				continue;
			any_sni = s->d.any_sni;
			if (found == NULL || any_sni)
				found = s->text;
		}
	}
	if (ret_any_sni != NULL)
		*ret_any_sni = any_sni;
	return found;
}
