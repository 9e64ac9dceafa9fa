/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/rules/egress.c: which host may be reached, where a name may lead, and the sentences
 * about it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/rules/egress.h"
#include "tests/kit/cases.h"

static struct policy policy;
static struct egress_rules *listed, *any;

static void
add(enum koda_list list, const char *rule)
{
	assert_int_equal(policy_list_add(&policy.list[list], rule, NULL), 0);
}

static int
setup(void **state)
{
	policy_init(&policy);
	add(KODA_ALLOWED_DOMAINS, "a.test");
	add(KODA_ALLOWED_DOMAINS, "b.test:8443");
	add(KODA_ALLOWED_DOMAINS, "*.w.test");
	add(KODA_ALLOWED_DOMAINS, "c.test");
	add(KODA_ALLOWED_DOMAINS, "c.test:22");
	add(KODA_ALLOWED_DOMAINS, "s.test any-sni");
	add(KODA_ALLOWED_DOMAINS, "10.0.0.1");
	add(KODA_ALLOWED_DOMAINS, "[::1]");
	add(KODA_ALLOWED_DOMAINS, "8.8.4.4:53");
	add(KODA_ALLOWED_DOMAINS, "[::ffff:10.0.0.3]");
	add(KODA_DENIED_DOMAINS, "bad.w.test");
	add(KODA_DENIED_DOMAINS, "*.bad.test");
	add(KODA_DENIED_DOMAINS, "c.test:22");
	add(KODA_DENIED_DOMAINS, "1.2.3.4");
	add(KODA_DENIED_DOMAINS, "10.0.0.3");
	assert_int_equal(policy_check(&policy, NULL), 0);
	listed = egress_rules_new(&policy, NULL);
	policy.flag[KODA_ANY_DOMAIN] = true;
	any = egress_rules_new(&policy, NULL);
	assert_non_null(listed);
	assert_non_null(any);
	return 0;
}

static int
teardown(void **state)
{
	egress_rules_free(listed);
	egress_rules_free(any);
	policy_done(&policy);
	return 0;
}

/* ---- hosts ---- */

#define ALLOW   EGRESS_ALLOW
#define DENY    EGRESS_DENY
#define UNNAMED EGRESS_UNNAMED

static const struct {
	const char *label, *host;
	unsigned port;
	enum egress_decision listed;
	const char *rule, *pattern; /* for `listed` */
	enum egress_decision any;   /* with any_domain */
} hosts[] = {
	/* clang-format off */
	{ "host: exact, 443", "a.test", 443, ALLOW, "allowed_domains", "a.test", ALLOW },
	{ "host: exact, 80", "a.test", 80, ALLOW, "allowed_domains", "a.test", ALLOW },
	{ "host: exact, other port", "a.test", 22, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: rule with port", "b.test", 8443, ALLOW, "allowed_domains", "b.test:8443", ALLOW },
	{ "host: rule with port, 443", "b.test", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: wildcard", "x.w.test", 443, ALLOW, "allowed_domains", "*.w.test", ALLOW },
	{ "host: wildcard is exactly one label", "x.y.w.test", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: wildcard is not the name itself", "w.test", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: suffix without the dot", "evilw.test", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: prefix", "a.test.evil", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: something behind the wildcard's name", "x.w.test.evil", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: half of the wildcard's name", "x.w.te", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: another", "evil.example", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: denied beats allowed", "bad.w.test", 443, DENY, "denied_domains", "bad.w.test", DENY },
	{ "host: denied on every port", "bad.w.test", 8080, DENY, "denied_domains", "bad.w.test", DENY },
	{ "host: denied by wildcard", "x.bad.test", 443, DENY, "denied_domains", "*.bad.test", DENY },
	{ "host: denied on one port", "c.test", 22, DENY, "denied_domains", "c.test:22", DENY },
	{ "host: not denied on another", "c.test", 443, ALLOW, "allowed_domains", "c.test", ALLOW },
	{ "host: localhost is a name", "localhost", 443, UNNAMED, "allowed_domains", NULL, ALLOW },
	{ "host: IPv4 that a rule names", "10.0.0.1", 80, ALLOW, "allowed_domains", "10.0.0.1", ALLOW },
	{ "host: IPv4 on another port", "10.0.0.1", 22, DENY, "allowed_domains", NULL, DENY },
	{ "host: another IPv4", "10.0.0.2", 80, DENY, "allowed_domains", NULL, DENY },
	{ "host: public IPv4", "8.8.8.8", 443, DENY, "allowed_domains", NULL, ALLOW },
	{ "host: public IPv4 on a port of its own", "8.8.4.4", 53, ALLOW, "allowed_domains", "8.8.4.4:53", ALLOW },
	{ "host: denied IPv4", "1.2.3.4", 443, DENY, "denied_domains", "1.2.3.4", DENY },
	{ "host: denied IPv4, mapped", "[::ffff:1.2.3.4]", 443, DENY, "denied_domains", "1.2.3.4", DENY },
	{ "host: denied IPv4, by NAT64", "[64:ff9b::102:304]", 443, DENY, "denied_domains", "1.2.3.4", DENY },
	{ "host: a mapped form that a rule names, and the address is denied", "[::ffff:10.0.0.3]", 443, DENY, "denied_domains", "10.0.0.3", DENY },
	{ "host: IPv6 that a rule names", "[::1]", 443, ALLOW, "allowed_domains", "[::1]", ALLOW },
	{ "host: another IPv6", "[::2]", 443, DENY, "allowed_domains", NULL, DENY },
	{ "host: public IPv6", "[2a00:1450::1]", 443, DENY, "allowed_domains", NULL, ALLOW },
	{ "host: metadata", "169.254.169.254", 80, DENY, "allowed_domains", NULL, DENY },
	{ "host: loopback", "127.0.0.1", 80, DENY, "allowed_domains", NULL, DENY },
	{ "host: port 0", "a.test", 0, DENY, "allowed_domains", NULL, DENY },
	{ "host: port above", "a.test", 65979, DENY, "allowed_domains", NULL, DENY },
	{ "host: no name", "", 443, DENY, "allowed_domains", NULL, DENY },
	/* clang-format on */
};

static enum domain_kind
kind_of(const char *host)
{
	char canonical[DOMAIN_HOST_MAX + 1];
	enum domain_kind kind = DOMAIN_NAME;

	if (host[0] != '\0') {
		assert_null(domain_host_parse(host, strlen(host), true, canonical, &kind));
		assert_string_equal(canonical, host);
	}
	return kind;
}

static void
host_case(void **state)
{
	size_t i = (uintptr_t)*state;
	enum domain_kind kind = kind_of(hosts[i].host);
	struct egress_verdict v = egress_judge(listed, hosts[i].host, kind, hosts[i].port);

	assert_int_equal(v.decision, hosts[i].listed);
	assert_string_equal(v.rule, hosts[i].rule);
	if (hosts[i].pattern == NULL)
		assert_null(v.pattern);
	else
		assert_string_equal(v.pattern, hosts[i].pattern);
	assert_false(v.any_sni);
	v = egress_judge(any, hosts[i].host, kind, hosts[i].port);
	assert_int_equal(v.decision, hosts[i].any);
}

static void
any_sni_is_the_rules(void **state)
{
	struct egress_verdict v = egress_judge(listed, "s.test", DOMAIN_NAME, 443);

	assert_true(v.decision == EGRESS_ALLOW && v.any_sni);
	v = egress_judge(any, "s.test", DOMAIN_NAME, 443);
	assert_true(v.decision == EGRESS_ALLOW && v.any_sni);
	assert_string_equal(v.rule, "any_domain");
	/* any_domain by itself says nothing about the server's name. */
	assert_false(egress_judge(any, "other.test", DOMAIN_NAME, 443).any_sni);
}

static void
what_is_no_address_is_not_judged_as_one(void **state)
{
	assert_int_equal(egress_judge(any, "a.test", DOMAIN_IPV4, 443).decision, EGRESS_DENY);
}

static void
no_list_reaches_nothing(void **state)
{
	static const char *const names[] = { "a.test", "8.8.8.8", "[::1]" };
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	for (int turn = 0; turn < 2; turn++) {
		struct egress_rules *rules = egress_rules_new(&p, NULL);

		assert_non_null(rules);
		for (size_t i = 0; i < N_ELEMENTS(names); i++)
			assert_int_not_equal(egress_judge(rules, names[i], kind_of(names[i]), 443)
						 .decision,
			    EGRESS_ALLOW);
		egress_rules_free(rules);
		p.list[KODA_ALLOWED_DOMAINS].present = true;
	}
}

static void
rules_that_are_none_are_refused(void **state)
{
	cleanup(policy_done) struct policy p;
	struct koda_error err = { 0 };

	policy_init(&p);
	assert_int_equal(policy_list_add(&p.list[KODA_DENIED_DOMAINS], "a..test", NULL), 0);
	assert_null(egress_rules_new(&p, &err));
	assert_int_equal(err.code, KODA_INVALID);
	egress_rules_free(NULL);
}

/* ---- addresses ---- */

static const struct {
	const char *label, *address;
	unsigned port;
	bool own, allowed;
	const char *rule;
} addresses[] = {
	/* clang-format off */
	{ "address: public", "8.8.8.8", 443, false, true, "address" },
	{ "address: public IPv6", "[2a00:1450::1]", 443, false, true, "address" },
	{ "address: public on a port that is no rule's", "8.8.8.8", 22, false, true, "address" },
	{ "address: public and this machine's", "8.8.8.8", 443, true, false, "address" },
	{ "address: this machine's, named", "8.8.4.4", 53, true, true, "allowed_domains" },
	{ "address: this machine's, named on another port", "8.8.4.4", 443, true, false, "address" },
	{ "address: denied", "1.2.3.4", 443, false, false, "denied_domains" },
	{ "address: denied on every port", "1.2.3.4", 22, false, false, "denied_domains" },
	{ "address: denied, mapped", "[::ffff:1.2.3.4]", 443, false, false, "denied_domains" },
	{ "address: denied, by 6to4", "[2002:102:304::1]", 443, false, false, "denied_domains" },
	{ "address: loopback", "127.0.0.1", 443, false, false, "address" },
	{ "address: loopback, named", "[::1]", 443, false, true, "allowed_domains" },
	{ "address: loopback, named on another port", "[::1]", 22, false, false, "address" },
	{ "address: private", "192.168.1.1", 443, false, false, "address" },
	{ "address: private, named", "10.0.0.1", 443, false, true, "allowed_domains" },
	{ "address: private, named, but mapped", "[::ffff:10.0.0.1]", 443, false, false, "address" },
	{ "address: carrier-grade", "100.64.0.1", 443, false, false, "address" },
	{ "address: link-local", "169.254.1.1", 443, false, false, "address" },
	{ "address: metadata", "169.254.169.254", 80, false, false, "address" },
	{ "address: metadata in public space", "168.63.129.16", 80, false, false, "address" },
	{ "address: metadata, IPv6", "[fd00:ec2::254]", 80, false, false, "address" },
	{ "address: metadata, NAT64", "[64:ff9b::a9fe:a9fe]", 80, false, false, "address" },
	{ "address: unspecified", "0.0.0.0", 443, false, false, "address" },
	{ "address: multicast", "224.0.0.1", 443, false, false, "address" },
	{ "address: mapped public", "[::ffff:8.8.8.8]", 443, false, false, "address" },
	{ "address: NAT64 of a public one", "[64:ff9b::808:808]", 443, false, false, "address" },
	{ "address: port 0", "8.8.8.8", 0, false, false, "address" },
	/* clang-format on */
};

static void
address_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct sockaddr_storage addr;
	socklen_t len;

	assert_true(address_parse(addresses[i].address, 1, &addr, &len));
	for (int turn = 0; turn < 2; turn++) {
		/* any_domain allows no address that is not public. */
		struct egress_verdict v = egress_judge_address(turn == 0 ? listed : any,
		    (struct sockaddr *)&addr, addresses[i].port, addresses[i].own);

		assert_int_equal(v.decision, addresses[i].allowed ? EGRESS_ALLOW : EGRESS_DENY);
		assert_string_equal(v.rule, addresses[i].rule);
	}
}

static void
another_family_is_refused(void **state)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNIX };

	assert_int_equal(egress_judge_address(any, (struct sockaddr *)&addr, 443, false).decision,
	    EGRESS_DENY);
}

/* ---- sentences ---- */

static const struct {
	const char *label, *host;
	unsigned port;
	enum koda_mode mode;
	bool with_any;
	const char *want;
} sentences[] = {
	{ "sentence: auto", "evil.example", 443, KODA_AUTO, false,
	    "evil.example:443 is refused: no rule of the policy names this host with this port "
	    "(rule allowed_domains, mode auto); do not try again, ask the user" },
	{ "sentence: safe", "evil.example", 443, KODA_SAFE, false,
	    "evil.example:443 is refused: no rule of the policy names this host with this port, "
	    "and the user has not approved it (rule allowed_domains, mode safe); do not try again, ask "
	    "the user" },
	{ "sentence: plan", "evil.example", 443, KODA_PLAN, false,
	    "evil.example:443 is refused: there is no network in plan mode (rule allowed_domains, "
	    "mode plan); do not try again, tell the user what you need from there" },
	{ "sentence: denied", "bad.w.test", 443, KODA_AUTO, false,
	    "bad.w.test:443 is refused: a rule of the policy denies this host (rule "
	    "denied_domains, mode auto); do not try again, and do not look for another way to reach it" },
	{ "sentence: denied in plan", "bad.w.test", 443, KODA_PLAN, false,
	    "bad.w.test:443 is refused: a rule of the policy denies this host (rule "
	    "denied_domains, mode plan); do not try again, and do not look for another way to reach it" },
	{ "sentence: address", "8.8.8.8", 443, KODA_SAFE, false,
	    "8.8.8.8:443 is refused: no rule of the policy names this address with this port (rule "
	    "allowed_domains, mode safe); use the name of the host, or ask the user" },
	{ "sentence: address that any_domain does not open", "[::ffff:10.0.0.9]", 443, KODA_AUTO,
	    true,
	    "[::ffff:10.0.0.9]:443 is refused: it is a private address, which no rule allows (rule "
	    "address, mode auto); do not try again, ask the user" },
	{ "sentence: loopback", "127.0.0.1", 8080, KODA_AUTO, true,
	    "127.0.0.1:8080 is refused: it is a loopback address, which no rule allows (rule "
	    "address, mode auto); connect to a server inside the sandbox without the proxy, "
	    "and ask the user about one outside" },
	{ "sentence: allowed", "a.test", 443, KODA_AUTO, false,
	    "a.test:443 is allowed: a rule of the policy names it (rule allowed_domains, mode auto)" },
	{ "sentence: allowed, any-sni", "s.test", 443, KODA_AUTO, false,
	    "s.test:443 is allowed: a rule of the policy names it (rule allowed_domains, mode "
	    "auto); the TLS server name may be another one" },
	{ "sentence: any_domain", "x.example", 443, KODA_AUTO, true,
	    "x.example:443 is allowed: the policy allows every host that it does not deny (rule "
	    "any_domain, mode auto)" },
};

static void
sentence_case(void **state)
{
	size_t i = (uintptr_t)*state;
	char buf[EGRESS_SENTENCE_MAX];
	struct egress_verdict v = egress_judge(sentences[i].with_any ? any : listed,
	    sentences[i].host, kind_of(sentences[i].host), sentences[i].port);
	size_t n = egress_sentence(buf, sizeof(buf), sentences[i].host, sentences[i].port, &v,
	    sentences[i].mode);

	assert_string_equal(buf, sentences[i].want);
	assert_int_equal(n, strlen(buf));
}

static const struct {
	const char *label, *host, *address;
	bool own;
	const char *want;
} leads[] = {
	{ "leads: loopback", "a.test", "127.0.0.1", false,
	    "a.test:443 is refused: it leads to a loopback address, which no rule allows (rule "
	    "address, mode auto); connect to a server inside the sandbox without the proxy, "
	    "and ask the user about one outside" },
	{ "leads: metadata", "a.test", "[fd00:ec2::254]", false,
	    "a.test:443 is refused: it leads to a cloud metadata address, which no rule allows "
	    "(rule address, mode auto); do not try again, ask the user" },
	{ "leads: own", "a.test", "8.8.8.8", true,
	    "a.test:443 is refused: it leads to an address of this machine, which no rule allows "
	    "(rule address, mode auto); do not try again, ask the user" },
	{ "leads: denied", "a.test", "8.8.8.8", false,
	    "a.test:443 is refused: it leads to an address that a rule of the policy denies (rule "
	    "denied_domains, mode auto); do not try again, and do not look for another way to reach it" },
	{ "leads: is", "10.0.0.9", "10.0.0.9", false,
	    "10.0.0.9:443 is refused: it is a private address, which no rule allows (rule address, "
	    "mode auto); do not try again, ask the user" },
};

static void
lead_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct sockaddr_storage addr;
	char buf[EGRESS_SENTENCE_MAX];
	socklen_t len;
	size_t n;

	assert_true(address_parse(leads[i].address, 443, &addr, &len));
	n = egress_address_sentence(buf, sizeof(buf), leads[i].host, 443, (struct sockaddr *)&addr,
	    leads[i].own, KODA_AUTO);
	assert_string_equal(buf, leads[i].want);
	assert_int_equal(n, strlen(buf));
}

/* The longest possible host, in each sentence. */
static void
a_sentence_is_never_cut(void **state)
{
	static const char *const at[] = { "127.0.0.1", "100.64.0.1", "169.254.169.254", "8.8.8.8" };
	static const char *const rules[] = { "allowed_domains", "denied_domains", "any_domain",
		"address" };
	char host[DOMAIN_HOST_MAX + 1], buf[EGRESS_SENTENCE_MAX];

	for (size_t i = 0; i < DOMAIN_HOST_MAX; i++)
		host[i] = i % 50 == 49 ? '.' : 'a';
	host[DOMAIN_HOST_MAX] = '\0';
	for (int mode = KODA_PLAN; mode <= KODA_AUTO; mode++) {
		for (int d = EGRESS_ALLOW; d <= EGRESS_UNNAMED; d++) {
			for (size_t r = 0; r < N_ELEMENTS(rules); r++) {
				struct egress_verdict v = { (enum egress_decision)d, rules[r], NULL,
					true };

				assert_true(egress_sentence(buf, sizeof(buf), host, 65535, &v,
						(enum koda_mode)mode) < sizeof(buf) - 1);
			}
		}
		for (size_t i = 0; i < N_ELEMENTS(at); i++) {
			struct sockaddr_storage addr;
			socklen_t len;

			assert_true(address_parse(at[i], 1, &addr, &len));
			assert_true(egress_address_sentence(buf, sizeof(buf), host, 65535,
					(struct sockaddr *)&addr, true,
					(enum koda_mode)mode) < sizeof(buf) - 1);
		}
	}
	/* Without enough room the sentence is cut, and still terminated. */
	assert_int_equal(egress_sentence(buf, 8, "a.test", 443,
			     &(struct egress_verdict){ EGRESS_DENY, "denied_domains", NULL, false },
			     KODA_AUTO),
	    7);
	assert_int_equal(strlen(buf), 7);
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(any_sni_is_the_rules),
		cmocka_unit_test(what_is_no_address_is_not_judged_as_one),
		cmocka_unit_test(no_list_reaches_nothing),
		cmocka_unit_test(rules_that_are_none_are_refused),
		cmocka_unit_test(another_family_is_refused),
		cmocka_unit_test(a_sentence_is_never_cut),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(hosts) + N_ELEMENTS(addresses) +
	    N_ELEMENTS(sentences) + N_ELEMENTS(leads)];
	size_t n = 0;

	OTHERS(single);
	CASES(hosts, host_case);
	CASES(addresses, address_case);
	CASES(sentences, sentence_case);
	CASES(leads, lead_case);
	return cmocka_run_group_tests_name("egress", tests, setup, teardown);
}
