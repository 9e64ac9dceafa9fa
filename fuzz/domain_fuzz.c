/* SPDX-License-Identifier: Apache-2.0 */
/* Input: a domain pattern and, after a newline, a host as a client sends it. What is accepted
 * has the strict grammar, still has it when it is normalised, and matches only what it names. */
#include <arpa/inet.h>

#include "fuzz/fuzz.h"
#include "shared/rules/address.h"

static bool
is_strict(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-:_[]")] == '\0';
}

/* A host that a resolver would take for a number must be an address, in the one form that every
 * parser reads the same way. */
static void
must_be_canonical(const char *host, enum domain_kind kind)
{
	char again[DOMAIN_HOST_MAX + 1], text[DOMAIN_HOST_MAX + 1];
	struct sockaddr_storage addr;
	enum domain_kind same;
	struct in_addr in;
	socklen_t len;

	must(host[0] != '\0' && strlen(host) <= DOMAIN_HOST_MAX && is_strict(host));
	must(domain_host_parse(host, strlen(host), true, again, &same) == NULL);
	must(strcmp(host, again) == 0 && kind == same);
	must(address_parse(host, 443, &addr, &len) == (kind != DOMAIN_NAME));
	if (kind != DOMAIN_NAME) {
		must(addr.ss_family == (kind == DOMAIN_IPV4 ? AF_INET : AF_INET6));
		address_text((struct sockaddr *)&addr, text);
		must(strcmp(text, host) == 0);
	} else {
		must(inet_aton(host, &in) == 0 && strpbrk(host, ":[]") == NULL);
		must(host[strlen(host) - 1] != '.');
	}
}

static bool
take_host(const uint8_t *data, size_t size, char ret[DOMAIN_HOST_MAX + 1])
{
	char other[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind, bare;
	unsigned port = 0;
	const char *why = domain_authority_parse(data, size, 0, ret, &kind, &port);

	if (why == NULL) {
		must_be_canonical(ret, kind);
		must(port > 0 && port <= 65535);
	}
	if (domain_host_parse(data, size, false, other, &bare) == NULL)
		must_be_canonical(other, bare);
	why = domain_host_parse(data, size, true, ret, &kind);
	if (why != NULL) {
		must(why[0] != '\0');
		return false;
	}
	must_be_canonical(ret, kind);
	must(strcmp(ret, other) == 0 && kind == bare);
	/* No accepted host contains a NUL. */
	must(memchr(data, '\0', size) == NULL);
	return true;
}

static void
must_name_only(const struct domain *d, const char *host)
{
	const size_t len = strlen(host);

	if (!domain_matches(d, host, len, 443, false)) {
		must(!d->wildcard || d->port != 0 || len <= d->len + 1 ||
		    memchr(host, '.', len - d->len - 1) != NULL ||
		    memcmp(host + len - d->len, d->name, d->len) != 0 ||
		    host[len - d->len - 1] != '.');
		return;
	}
	must(d->port == 0 || d->port == 443);
	must(domain_matches(d, host, len, 443, true));
	must(len >= d->len && memcmp(host + len - d->len, d->name, d->len) == 0);
	if (!d->wildcard) {
		must(len == d->len);
	} else {
		/* The host has exactly one more label. */
		must(len > d->len + 1 && host[len - d->len - 1] == '.');
		must(memchr(host, '.', len - d->len - 1) == NULL);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *newline = memchr(data, '\n', size);
	size_t n = newline != NULL ? (size_t)(newline - data) : size;
	char host[DOMAIN_HOST_MAX + 1], both[DOMAIN_PATTERN_MAX + 1];
	char *pattern, *before;
	struct domain d, again;
	bool has_host;

	if (size == 0 || size > 2048)
		return 0;
	has_host = newline != NULL ? take_host(newline + 1, size - n - 1, host)
				   : take_host(data, size, host);
	if (memchr(data, '\0', n) != NULL)
		return 0;
	pattern = strndup((const char *)data, n);
	must(pattern != NULL);
	if (domain_parse(pattern, &d) != NULL) {
		free(pattern);
		return 0;
	}
	must(strlen(pattern) <= DOMAIN_PATTERN_MAX);
	domain_normalise(pattern);
	must(domain_is_normalised(pattern));
	must(domain_parse(pattern, &d) == NULL);
	must(pattern[strspn(pattern, "abcdefghijklmnopqrstuvwxyz0123456789.-*:_[] ")] == '\0');
	before = strdup(pattern);
	must(before != NULL);
	domain_normalise(pattern);
	must(strcmp(before, pattern) == 0);
	must(domain_covers(&d, &d));
	must(domain_intersect(&d, &d, both) && strcmp(both, pattern) == 0);
	must(domain_parse(both, &again) == NULL && again.any_sni == d.any_sni);
	if (has_host) {
		char *patterns[] = { pattern };
		struct domain_set *set = domain_set_new(patterns, 1, NULL);
		bool any_sni;

		must(set != NULL);
		must_name_only(&d, host);
		must((domain_set_find(set, host, 443, false, &any_sni) == pattern) ==
		    domain_matches(&d, host, strlen(host), 443, false));
		must((domain_set_find(set, host, 22, true, &any_sni) == pattern) ==
		    domain_matches(&d, host, strlen(host), 22, true));
		domain_set_free(set);
	}
	free(before);
	free(pattern);
	return 0;
}
