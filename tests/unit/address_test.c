/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/rules/address.c: the class of an address: each block of the registries at its edges,
 * and addresses that embed others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/rules/address.h"
#include "tests/kit/cases.h"

static const struct sockaddr *
address_of(const char *text, struct sockaddr_storage *ret)
{
	char host[DOMAIN_HOST_MAX + 1];
	socklen_t len;

	snprintf(host, sizeof(host), strchr(text, ':') != NULL ? "[%s]" : "%s", text);
	if (!address_parse(host, 443, ret, &len))
		fail_msg("%s", text);
	return (const struct sockaddr *)ret;
}

static const struct {
	const char *text;
	enum address_class want;
} classes[] = {
	/* clang-format off */
	{ "0.0.0.0", ADDRESS_UNSPECIFIED },
	{ "0.255.255.255", ADDRESS_UNSPECIFIED },
	{ "1.0.0.0", ADDRESS_PUBLIC },
	{ "1.1.1.1", ADDRESS_PUBLIC },
	{ "8.8.8.8", ADDRESS_PUBLIC },
	{ "9.255.255.255", ADDRESS_PUBLIC },
	{ "10.0.0.0", ADDRESS_PRIVATE },
	{ "10.255.255.255", ADDRESS_PRIVATE },
	{ "11.0.0.0", ADDRESS_PUBLIC },
	{ "100.63.255.255", ADDRESS_PUBLIC },
	{ "100.64.0.0", ADDRESS_SHARED },
	{ "100.100.100.199", ADDRESS_SHARED },
	{ "100.100.100.200", ADDRESS_METADATA },
	{ "100.127.255.255", ADDRESS_SHARED },
	{ "100.128.0.0", ADDRESS_PUBLIC },
	{ "126.255.255.255", ADDRESS_PUBLIC },
	{ "127.0.0.0", ADDRESS_LOOPBACK },
	{ "127.0.0.1", ADDRESS_LOOPBACK },
	{ "127.255.255.255", ADDRESS_LOOPBACK },
	{ "128.0.0.0", ADDRESS_PUBLIC },
	{ "168.63.129.15", ADDRESS_PUBLIC },
	{ "168.63.129.16", ADDRESS_METADATA },
	{ "168.63.129.17", ADDRESS_PUBLIC },
	{ "169.253.255.255", ADDRESS_PUBLIC },
	{ "169.254.0.0", ADDRESS_LINK_LOCAL },
	{ "169.254.0.23", ADDRESS_METADATA },
	{ "169.254.42.42", ADDRESS_METADATA },
	{ "169.254.169.252", ADDRESS_LINK_LOCAL },
	{ "169.254.169.253", ADDRESS_METADATA },
	{ "169.254.169.254", ADDRESS_METADATA },
	{ "169.254.170.2", ADDRESS_METADATA },
	{ "169.254.170.23", ADDRESS_METADATA },
	{ "169.254.255.255", ADDRESS_LINK_LOCAL },
	{ "169.255.0.0", ADDRESS_PUBLIC },
	{ "172.15.255.255", ADDRESS_PUBLIC },
	{ "172.16.0.0", ADDRESS_PRIVATE },
	{ "172.31.255.255", ADDRESS_PRIVATE },
	{ "172.32.0.0", ADDRESS_PUBLIC },
	{ "191.255.255.255", ADDRESS_PUBLIC },
	{ "192.0.0.0", ADDRESS_RESERVED },
	{ "192.0.0.8", ADDRESS_RESERVED },
	{ "192.0.0.170", ADDRESS_RESERVED },
	{ "192.0.0.192", ADDRESS_METADATA },
	{ "192.0.0.255", ADDRESS_RESERVED },
	{ "192.0.1.0", ADDRESS_PUBLIC },
	{ "192.0.2.0", ADDRESS_RESERVED },
	{ "192.0.2.255", ADDRESS_RESERVED },
	{ "192.0.3.0", ADDRESS_PUBLIC },
	{ "192.31.196.1", ADDRESS_PUBLIC },
	{ "192.88.98.255", ADDRESS_PUBLIC },
	{ "192.88.99.1", ADDRESS_RESERVED },
	{ "192.167.255.255", ADDRESS_PUBLIC },
	{ "192.168.0.0", ADDRESS_PRIVATE },
	{ "192.168.255.255", ADDRESS_PRIVATE },
	{ "192.169.0.0", ADDRESS_PUBLIC },
	{ "198.17.255.255", ADDRESS_PUBLIC },
	{ "198.18.0.0", ADDRESS_RESERVED },
	{ "198.19.255.255", ADDRESS_RESERVED },
	{ "198.20.0.0", ADDRESS_PUBLIC },
	{ "198.51.100.7", ADDRESS_RESERVED },
	{ "198.51.101.0", ADDRESS_PUBLIC },
	{ "203.0.112.255", ADDRESS_PUBLIC },
	{ "203.0.113.7", ADDRESS_RESERVED },
	{ "223.255.255.255", ADDRESS_PUBLIC },
	{ "224.0.0.0", ADDRESS_MULTICAST },
	{ "239.255.255.255", ADDRESS_MULTICAST },
	{ "240.0.0.0", ADDRESS_RESERVED },
	{ "255.255.255.254", ADDRESS_RESERVED },
	{ "255.255.255.255", ADDRESS_MULTICAST },

	{ "::", ADDRESS_UNSPECIFIED },
	{ "::1", ADDRESS_LOOPBACK },
	{ "::2", ADDRESS_UNSPECIFIED }, /* IPv4-compatible: 0.0.0.2 */
	{ "100::1", ADDRESS_RESERVED },
	{ "100:0:0:1::1", ADDRESS_RESERVED },
	{ "1fff:ffff::1", ADDRESS_RESERVED },
	{ "2000::1", ADDRESS_PUBLIC },
	{ "2001:1::1", ADDRESS_RESERVED },
	{ "2001:2::1", ADDRESS_RESERVED },
	{ "2001:10::1", ADDRESS_RESERVED },
	{ "2001:20::1", ADDRESS_RESERVED },
	{ "2001:1ff:ffff::1", ADDRESS_RESERVED },
	{ "2001:200::1", ADDRESS_PUBLIC },
	{ "2001:4860:4860::8888", ADDRESS_PUBLIC },
	{ "2001:db7:ffff::1", ADDRESS_PUBLIC },
	{ "2001:db8::1", ADDRESS_RESERVED },
	{ "2001:db9::1", ADDRESS_PUBLIC },
	{ "2606:4700:4700::1111", ADDRESS_PUBLIC },
	{ "2620:4f:8000::1", ADDRESS_PUBLIC },
	{ "2a00:1450:4001::1", ADDRESS_PUBLIC },
	{ "3ffe::1", ADDRESS_RESERVED },
	{ "3fff::1", ADDRESS_RESERVED },
	{ "3fff:fff:ffff::1", ADDRESS_RESERVED },
	{ "3fff:1000::1", ADDRESS_PUBLIC },
	{ "4000::1", ADDRESS_RESERVED },
	{ "5f00::1", ADDRESS_RESERVED },
	{ "fbff::1", ADDRESS_RESERVED },
	{ "fc00::1", ADDRESS_PRIVATE },
	{ "fd00:42::42", ADDRESS_METADATA },
	{ "fd00:c1::a9fe:a9fe", ADDRESS_METADATA },
	{ "fd00:ec2::23", ADDRESS_METADATA },
	{ "fd00:ec2::253", ADDRESS_METADATA },
	{ "fd00:ec2::254", ADDRESS_METADATA },
	{ "fd00:ec2::255", ADDRESS_PRIVATE },
	{ "fd20:ce::254", ADDRESS_METADATA },
	{ "fdff:ffff::1", ADDRESS_PRIVATE },
	{ "fe00::1", ADDRESS_RESERVED },
	{ "fe80::1", ADDRESS_LINK_LOCAL },
	{ "febf::1", ADDRESS_LINK_LOCAL },
	{ "fec0::1", ADDRESS_PRIVATE },
	{ "feff::1", ADDRESS_PRIVATE },
	{ "ff02::1", ADDRESS_MULTICAST },
	{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ADDRESS_MULTICAST },

	/* addresses that embed an IPv4 address: never public, and no better than what they embed */
	{ "::ffff:8.8.8.8", ADDRESS_RESERVED },
	{ "::ffff:127.0.0.1", ADDRESS_LOOPBACK },
	{ "::ffff:10.1.2.3", ADDRESS_PRIVATE },
	{ "::ffff:169.254.169.254", ADDRESS_METADATA },
	{ "::ffff:0.0.0.0", ADDRESS_UNSPECIFIED },
	{ "::ffff:0:127.0.0.1", ADDRESS_LOOPBACK },
	{ "::8.8.8.8", ADDRESS_RESERVED },
	{ "::127.0.0.1", ADDRESS_LOOPBACK },
	{ "::169.254.169.254", ADDRESS_METADATA },
	{ "64:ff9b::8.8.8.8", ADDRESS_RESERVED },
	{ "64:ff9b::127.0.0.1", ADDRESS_LOOPBACK },
	{ "64:ff9b::10.0.0.1", ADDRESS_PRIVATE },
	{ "64:ff9b::169.254.169.254", ADDRESS_METADATA },
	{ "64:ff9b:1::192.168.0.1", ADDRESS_PRIVATE },
	{ "64:ff9b:1:2:3:4:8.8.8.8", ADDRESS_RESERVED },
	{ "64:ff9b:2::1", ADDRESS_RESERVED },
	{ "2002:808:808::1", ADDRESS_RESERVED },
	{ "2002:7f00:1::1", ADDRESS_LOOPBACK },
	{ "2002:c0a8:1::1", ADDRESS_PRIVATE },
	{ "2002:a9fe:a9fe::1", ADDRESS_METADATA },
	{ "2001:0:808:808::f7f7:f7f7", ADDRESS_RESERVED },
	{ "2001:0:808:808:0:0:80ff:fffe", ADDRESS_LOOPBACK },  /* client 127.0.0.1 */
	{ "2001:0:a00:1:0:0:f7f7:f7f7", ADDRESS_PRIVATE },     /* server 10.0.0.1 */
	{ "2a00:1450::5efe:8.8.8.8", ADDRESS_PUBLIC },
	{ "2a00:1450::5efe:10.0.0.1", ADDRESS_PRIVATE },
	{ "2a00:1450::200:5efe:192.168.1.1", ADDRESS_PRIVATE },
	{ "2a00:1450::400:5efe:192.168.1.1", ADDRESS_PUBLIC },
	{ "fe80::5efe:8.8.8.8", ADDRESS_LINK_LOCAL },
	/* clang-format on */
};

static void
class_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct sockaddr_storage addr;
	enum address_class got = address_classify(address_of(classes[i].text, &addr));

	if (got != classes[i].want)
		fail_msg("%s: %s", classes[i].text, address_class_name(got));
}

static void
another_family_is_reserved(void **state)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNIX };
	char text[DOMAIN_HOST_MAX + 1];

	assert_int_equal(address_classify((struct sockaddr *)&addr), ADDRESS_RESERVED);
	address_text((struct sockaddr *)&addr, text);
	assert_string_equal(text, "");
}

static void
a_scope_changes_nothing(void **state)
{
	struct sockaddr_storage addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	char text[DOMAIN_HOST_MAX + 1];

	address_of("2a00:1450::1", &addr);
	in6->sin6_scope_id = 7;
	assert_int_equal(address_classify((struct sockaddr *)&addr), ADDRESS_PUBLIC);
	address_text((struct sockaddr *)&addr, text);
	assert_string_equal(text, "[2a00:1450::1]");
}

static void
every_class_has_a_name(void **state)
{
	for (int a = ADDRESS_PUBLIC; a <= ADDRESS_RESERVED; a++) {
		for (int b = ADDRESS_PUBLIC; b < a; b++)
			assert_string_not_equal(address_class_name((enum address_class)a),
			    address_class_name((enum address_class)b));
	}
	assert_string_equal(address_class_name((enum address_class)99), "reserved");
}

/* ---- texts ---- */

static void
texts_there_and_back(void **state)
{
	static const char *const hosts[] = { "0.0.0.0", "10.0.0.1", "255.255.255.255", "[::]",
		"[::1]", "[2001:db8::a]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]" };

	for (size_t i = 0; i < N_ELEMENTS(hosts); i++) {
		char text[DOMAIN_HOST_MAX + 1], canonical[DOMAIN_HOST_MAX + 1];
		struct sockaddr_storage addr;
		enum domain_kind kind;
		socklen_t len = 0;

		assert_true(address_parse(hosts[i], 8443, &addr, &len));
		assert_int_equal(len,
		    hosts[i][0] == '[' ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		assert_int_equal(((struct sockaddr_in *)&addr)->sin_port, htons(8443));
		address_text((struct sockaddr *)&addr, text);
		assert_string_equal(text, hosts[i]);
		assert_null(domain_host_parse(text, strlen(text), true, canonical, &kind));
		assert_string_equal(canonical, text);
		assert_int_equal(kind, hosts[i][0] == '[' ? DOMAIN_IPV6 : DOMAIN_IPV4);
	}
}

static void
a_name_is_no_address(void **state)
{
	static const char *const names[] = { "", "a.test", "localhost", "127.1", "0x7f.1",
		"2130706433", "::1", "[", "[]", "[::1", "[::1]x", "[127.0.0.1]", "[fe80::1%lo]",
		"10.0.0.1 ",
		"[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee]" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		struct sockaddr_storage addr;
		socklen_t len;

		if (address_parse(names[i], 1, &addr, &len))
			fail_msg("'%s'", names[i]);
	}
}

/* ---- prefixes ---- */

static const struct {
	const char *label, *prefix, *address;
	bool good, contains;
} prefixes[] = {
	{ "prefix: block", "10.0.0.0/8", "10.255.0.1", true, true },
	{ "prefix: beside it", "10.0.0.0/8", "11.0.0.1", true, false },
	{ "prefix: odd bits", "172.16.0.0/12", "172.31.255.255", true, true },
	{ "prefix: odd bits, beside", "172.16.0.0/12", "172.32.0.0", true, false },
	{ "prefix: bits behind the block", "10.1.2.3/8", "10.9.9.9", true, true },
	{ "prefix: one address", "192.0.2.1", "192.0.2.1", true, true },
	{ "prefix: another address", "192.0.2.1", "192.0.2.2", true, false },
	{ "prefix: all of IPv4", "0.0.0.0/0", "8.8.8.8", true, true },
	{ "prefix: all of IPv4 is no IPv6", "0.0.0.0/0", "2001:db8::1", true, false },
	{ "prefix: IPv4, mapped", "10.0.0.0/8", "::ffff:10.1.2.3", true, true },
	{ "prefix: IPv6", "fd00::/8", "fd12::1", true, true },
	{ "prefix: IPv6, odd bits", "fe80::/10", "febf::1", true, true },
	{ "prefix: IPv6, beside", "fe80::/10", "fec0::1", true, false },
	{ "prefix: IPv6 in brackets", "[::1]", "::1", true, true },
	{ "prefix: IPv6 in brackets with bits", "[2001:db8::]/32", "2001:db8:1::1", true, true },
	{ "prefix: all of IPv6", "::/0", "2001:db8::1", true, true },
	{ "prefix: all of IPv6 is no IPv4", "::/0", "8.8.8.8", true, false },
	{ "prefix: too many bits", "10.0.0.0/33", NULL, false, false },
	{ "prefix: too many bits for IPv6", "::/129", NULL, false, false },
	{ "prefix: no bits", "10.0.0.0/", NULL, false, false },
	{ "prefix: leading zero", "10.0.0.0/08", NULL, false, false },
	{ "prefix: no number", "10.0.0.0/8x", NULL, false, false },
	{ "prefix: negative", "10.0.0.0/-1", NULL, false, false },
	{ "prefix: wraps", "10.0.0.0/4294967304", NULL, false, false },
	{ "prefix: two slashes", "10.0.0.0/8/8", NULL, false, false },
	{ "prefix: mask", "10.0.0.0/255.0.0.0", NULL, false, false },
	{ "prefix: short", "10/8", NULL, false, false },
	{ "prefix: IPv4 in brackets", "[10.0.0.1]", NULL, false, false },
	{ "prefix: a name", "a.test", NULL, false, false },
	{ "prefix: nothing", "", NULL, false, false },
	{ "prefix: only bits", "/8", NULL, false, false },
	{ "prefix: zone", "fe80::1%lo", NULL, false, false },
};

static void
prefix_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct sockaddr_storage addr;
	struct address_prefix p;

	assert_int_equal(address_prefix_parse(prefixes[i].prefix, strlen(prefixes[i].prefix), &p),
	    prefixes[i].good);
	if (prefixes[i].good)
		assert_int_equal(address_prefix_contains(&p,
				     address_of(prefixes[i].address, &addr)),
		    prefixes[i].contains);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(another_family_is_reserved),
		cmocka_unit_test(a_scope_changes_nothing),
		cmocka_unit_test(every_class_has_a_name),
		cmocka_unit_test(texts_there_and_back),
		cmocka_unit_test(a_name_is_no_address),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(classes) + N_ELEMENTS(prefixes)];
	size_t n = 0;

	OTHERS(single);
	for (size_t i = 0; i < N_ELEMENTS(classes); i++)
		tests[n++] =
		    (struct CMUnitTest){ classes[i].text, class_case, NULL, NULL, (void *)i };
	CASES(prefixes, prefix_case);
	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
