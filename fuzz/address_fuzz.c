/* SPDX-License-Identifier: Apache-2.0 */
/* Input: four or sixteen bytes of an address (the first byte says which), or the text of a prefix.
 * Each address has a class and one text, and an address that embeds another gets no better class
 * than the embedded one. */
#include "fuzz/fuzz.h"
#include "shared/rules/address.h"

static void
address(const struct sockaddr *sa)
{
	const enum address_class class = address_classify(sa);
	struct sockaddr_in carried[ADDRESS_CARRIED_MAX];
	char text[DOMAIN_HOST_MAX + 1], again[DOMAIN_HOST_MAX + 1];
	struct sockaddr_storage back;
	struct address_prefix p;
	enum domain_kind kind;
	socklen_t len;
	size_t n;

	must(class <= ADDRESS_RESERVED && address_class_name(class)[0] != '\0');
	address_text(sa, text);
	must(domain_host_parse(text, strlen(text), true, again, &kind) == NULL);
	must(strcmp(text, again) == 0);
	must(kind == (sa->sa_family == AF_INET ? DOMAIN_IPV4 : DOMAIN_IPV6));
	must(address_parse(text, 443, &back, &len));
	must(address_classify((struct sockaddr *)&back) == class);
	n = address_carried(sa, carried);
	must(n <= ADDRESS_CARRIED_MAX && (sa->sa_family == AF_INET6 || n == 0));
	for (size_t i = 0; i < n; i++)
		must(class != ADDRESS_PUBLIC ||
		    address_classify((struct sockaddr *)&carried[i]) == ADDRESS_PUBLIC);
	must(address_prefix_parse(text, strlen(text), &p) && address_prefix_contains(&p, sa));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct address_prefix p;

	if (size == 0 || size > 256)
		return 0;
	if (data[0] == 4 && size == 5) {
		memcpy(&in.sin_addr, data + 1, 4);
		address((struct sockaddr *)&in);
	} else if (data[0] == 6 && size == 17) {
		memcpy(&in6.sin6_addr, data + 1, 16);
		address((struct sockaddr *)&in6);
	} else if (address_prefix_parse((const char *)data, size, &p)) {
		must(p.family == AF_INET || p.family == AF_INET6);
		must(p.bits <= (p.family == AF_INET ? 32 : 128));
		must(memchr(data, '\0', size) == NULL);
		/* A prefix contains its own first address. */
		memcpy(&in.sin_addr, p.bytes, 4);
		memcpy(&in6.sin6_addr, p.bytes, 16);
		must(address_prefix_contains(&p,
		    p.family == AF_INET ? (struct sockaddr *)&in : (struct sockaddr *)&in6));
	}
	return 0;
}
