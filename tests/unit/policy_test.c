/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared/rules/policy.c: the value of a policy: copied, compared, checked, shown, packed and
 * unpacked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/policy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "shared/rules/policy_field.h"
#include "tests/kit/cases.h"

/* ---- making policies ---- */

static void
add(struct policy *p, enum koda_list list, const char *rule)
{
	assert_int_equal(policy_list_add(&p->list[list], rule, NULL), 0);
}

static void
compose(const struct policy *a, const struct policy *b, struct policy *ret)
{
	struct koda_error err = { 0 };

	if (policy_compose(a, b, ret, &err) < 0)
		fail_msg("%s", err.message);
}

/* The list, comma-separated; "absent" or "" when there is nothing in it. */
static const char *
list_text(const struct policy *p, enum koda_list list)
{
	static char text[1024];
	size_t n = 0;

	if (!p->list[list].present)
		return "absent";
	text[0] = '\0';
	for (size_t i = 0; i < p->list[list].n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i > 0 ? "," : "",
		    p->list[list].v[i]);
	return text;
}

/* Comma-separated rules, NULL: absent. */
static void
set_list(struct policy *p, enum koda_list list, const char *rules)
{
	cleanup_free char *copy = NULL;
	char *save = NULL;

	if (rules == NULL)
		return;
	p->list[list].present = true;
	copy = strdup(rules);
	assert_non_null(copy);
	for (char *r = strtok_r(copy, ",", &save); r != NULL; r = strtok_r(NULL, ",", &save))
		add(p, list, r);
}

static void
fill(struct policy *p)
{
	policy_init(p);
	set_list(p, KODA_DENY_READ, "/a,/b");
	set_list(p, KODA_ALLOW_READ_WITHIN_DENY, "/a/x");
	set_list(p, KODA_ALLOW_WRITE, "/w,/v/u");
	set_list(p, KODA_DENY_WRITE_WITHIN_ALLOW, "/w/.git/hooks");
	set_list(p, KODA_ALLOWED_DOMAINS, "*.a.test:443,x.a.test,x.a.test:443,[::1]:8080");
	set_list(p, KODA_DENIED_DOMAINS, "bad.test");
	set_list(p, KODA_DENY_WRITE_NAMES, ".vscode,.github/hooks");
	p->flag[KODA_ALLOW_GIT_CONFIG] = true;
	p->flag[KODA_ALLOW_LOCAL_BINDING] = true;
	p->limit[KODA_WALL_TIME_SECS] = (struct policy_limit){ true, 60 };
	p->limit[KODA_MAX_FILE_BYTES] = (struct policy_limit){ true, INT64_MAX };
	p->limit[KODA_MAX_RSS_BYTES] = (struct policy_limit){ true, UINT64_MAX };
	p->limit[KODA_CPU_TIME_SECS] = (struct policy_limit){ true, 0 };
	p->depth = 255;
	p->trust = KODA_TRUST_REQUIRE;
	p->ca_bundle = strdup("/etc/ca.pem");
	p->sockets = calloc(1, sizeof(*p->sockets));
	assert_non_null(p->sockets);
	p->n_sockets = 1;
	p->sockets[0] = (struct policy_socket){ strdup("x.a.test"), strdup("/run/s") };
}

/* ---- the original's tests ---- */

static void
default_policy_is_empty_and_auto(void **state)
{
	cleanup(policy_done) struct policy p;

	policy_init(&p);
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		assert_false(p.list[i].present);
		assert_int_equal(p.list[i].n, 0);
	}
	for (size_t i = 0; i < KODA_N_FLAGS; i++)
		assert_false(p.flag[i]);
	for (size_t i = 0; i < KODA_N_LIMITS; i++)
		assert_false(p.limit[i].set);
	assert_int_equal(p.trust, KODA_TRUST_AUTO);
	assert_null(p.ca_bundle);
	assert_int_equal(policy_check(&p, NULL), 0);
}

static void
fs_policy_default_has_safe_baseline_depth(void **state)
{
	cleanup(policy_done) struct policy p, q;
	Koda__Policy msg = KODA__POLICY__INIT;
	Koda__FsPolicy fs = KODA__FS_POLICY__INIT;
	uint8_t bytes[16];

	policy_init(&p);
	assert_int_equal(p.depth, 3);
	msg.fs = &fs; /* on the wire, without the field */
	assert_int_equal(policy_unpack(bytes, koda__policy__pack(&msg, bytes), &q, NULL), 0);
	assert_int_equal(q.depth, 3);
}

static void
policy_round_trips(void **state)
{
	cleanup(policy_done) struct policy p, q;
	cleanup_free uint8_t *bytes = NULL, *again = NULL;
	struct koda_error err = { 0 };
	size_t len, again_len;

	fill(&p);
	policy_init(&q);
	assert_int_equal(policy_pack(&p, &bytes, &len, &err), 0);
	if (policy_unpack(bytes, len, &q, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(policy_equal(&p, &q));
	assert_int_equal(policy_pack(&q, &again, &again_len, &err), 0);
	assert_int_equal(again_len, len);
	assert_memory_equal(again, bytes, len);
}

static void
an_empty_message_is_the_default_policy(void **state)
{
	cleanup(policy_done) struct policy p, q;

	policy_init(&p);
	policy_init(&q);
	assert_int_equal(policy_unpack((const uint8_t *)"", 0, &q, NULL), 0);
	assert_true(policy_equal(&p, &q));
}

static void
presence_survives_packing(void **state)
{
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		cleanup(policy_done) struct policy p, q;
		cleanup_free uint8_t *bytes = NULL;
		size_t len;

		policy_init(&p);
		policy_init(&q);
		p.list[i].present = true;
		assert_int_equal(policy_pack(&p, &bytes, &len, NULL), 0);
		assert_int_equal(policy_unpack(bytes, len, &q, NULL), 0);
		for (size_t k = 0; k < KODA_N_LISTS; k++)
			assert_int_equal(q.list[k].present, k == i);
		assert_true(policy_equal(&p, &q));
	}
}

static void
compose_with_default_child_is_identity_for_parent_denies(void **state)
{
	cleanup(policy_done) struct policy p, c, r;

	fill(&p);
	policy_init(&c);
	compose(&p, &c, &r);
	assert_string_equal(list_text(&r, KODA_DENY_READ), "/a,/b");
	assert_string_equal(list_text(&r, KODA_DENY_WRITE_WITHIN_ALLOW), "/w/.git/hooks");
	assert_string_equal(list_text(&r, KODA_DENIED_DOMAINS), "bad.test");
	/* absent inherits */
	assert_string_equal(list_text(&r, KODA_ALLOW_WRITE), "/w,/v/u");
	assert_string_equal(list_text(&r, KODA_ALLOW_READ_WITHIN_DENY), "/a/x");
	assert_int_equal(r.trust, KODA_TRUST_REQUIRE);
	assert_true(r.limit[KODA_WALL_TIME_SECS].set);
}

static void
compose_with_default_parent_keeps_child_denies_and_drops_its_allows(void **state)
{
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	fill(&c);
	compose(&p, &c, &r);
	assert_string_equal(list_text(&r, KODA_DENY_READ), "/a,/b");
	assert_string_equal(list_text(&r, KODA_DENIED_DOMAINS), "bad.test");
	assert_string_equal(list_text(&r, KODA_ALLOW_WRITE), "");
	assert_string_equal(list_text(&r, KODA_ALLOWED_DOMAINS), "");
	assert_false(r.flag[KODA_ALLOW_GIT_CONFIG]);
	assert_null(r.ca_bundle);
}

static void
compose_unions_denies_so_child_can_add_restrictions(void **state)
{
	static const enum koda_list lists[] = { KODA_DENY_READ, KODA_DENY_WRITE_WITHIN_ALLOW };

	for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
		cleanup(policy_done) struct policy p, c, r;

		policy_init(&p);
		policy_init(&c);
		set_list(&p, lists[i], "/a");
		set_list(&c, lists[i], "/b");
		compose(&p, &c, &r);
		assert_string_equal(list_text(&r, lists[i]), "/a,/b");
	}
}

static void
compose_union_dedupes_overlapping_denies(void **state)
{
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	policy_init(&c);
	set_list(&p, KODA_DENY_READ, "/a,/b");
	set_list(&c, KODA_DENY_READ, "/b,/c");
	set_list(&p, KODA_DENIED_DOMAINS, "a.test,b.test");
	set_list(&c, KODA_DENIED_DOMAINS, "b.test,c.test");
	compose(&p, &c, &r);
	assert_string_equal(list_text(&r, KODA_DENY_READ), "/a,/b,/c");
	assert_string_equal(list_text(&r, KODA_DENIED_DOMAINS), "a.test,b.test,c.test");
}

static void
compose_drops_child_allow_writes_so_child_cannot_widen(void **state)
{
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	policy_init(&c);
	set_list(&p, KODA_ALLOW_WRITE, "/p");
	set_list(&c, KODA_ALLOW_WRITE, "/etc");
	compose(&p, &c, &r);
	assert_string_equal(list_text(&r, KODA_ALLOW_WRITE), "");
}

static void
compose_flags_are_logical_and(void **state)
{
	for (size_t f = 0; f < KODA_N_FLAGS; f++) {
		for (int k = 0; k < 4; k++) {
			cleanup(policy_done) struct policy p, c, r;

			policy_init(&p);
			policy_init(&c);
			p.flag[f] = k & 1;
			c.flag[f] = k & 2;
			compose(&p, &c, &r);
			assert_int_equal(r.flag[f], k == 3);
			for (size_t other = 0; other < KODA_N_FLAGS; other++)
				assert_true(other == f || !r.flag[other]);
		}
	}
}

static void
compose_limits_take_minimum_with_none_meaning_unlimited(void **state)
{
	for (size_t i = 0; i < KODA_N_LIMITS; i++) {
		cleanup(policy_done) struct policy p, c, one, two, three, none;

		policy_init(&p);
		policy_init(&c);
		compose(&p, &c, &none);
		assert_false(none.limit[i].set);
		p.limit[i] = (struct policy_limit){ true, 1024 };
		compose(&p, &c, &one);
		assert_true(one.limit[i].set && one.limit[i].value == 1024);
		compose(&c, &p, &two);
		assert_true(two.limit[i].set && two.limit[i].value == 1024);
		c.limit[i] = (struct policy_limit){ true, 0 };
		compose(&p, &c, &three);
		assert_true(three.limit[i].set && three.limit[i].value == 0);
	}
}

static void
compose_trust_picks_strictest(void **state)
{
	for (int a = KODA_TRUST_AUTO; a <= KODA_TRUST_FORBID; a++) {
		for (int b = KODA_TRUST_AUTO; b <= KODA_TRUST_FORBID; b++) {
			cleanup(policy_done) struct policy p, c, r;

			policy_init(&p);
			policy_init(&c);
			p.trust = (enum koda_trust)a;
			c.trust = (enum koda_trust)b;
			compose(&p, &c, &r);
			if (a == KODA_TRUST_FORBID || b == KODA_TRUST_FORBID)
				assert_int_equal(r.trust, KODA_TRUST_FORBID);
			else if (a == KODA_TRUST_REQUIRE || b == KODA_TRUST_REQUIRE)
				assert_int_equal(r.trust, KODA_TRUST_REQUIRE);
			else
				assert_int_equal(r.trust, KODA_TRUST_AUTO);
		}
	}
}

static void
compose_idempotent_with_self(void **state)
{
	cleanup(policy_done) struct policy p, r;

	fill(&p);
	compose(&p, &p, &r);
	assert_true(policy_equal(&p, &r));
}

static void
compose_mitm_inherited_from_parent_only(void **state)
{
	cleanup(policy_done) struct policy p, c, r, s;

	fill(&p);
	policy_init(&c);
	compose(&p, &c, &r);
	assert_string_equal(r.ca_bundle, "/etc/ca.pem");
	assert_int_equal(r.n_sockets, 1);
	assert_string_equal(r.sockets[0].domain, "x.a.test");
	compose(&c, &p, &s);
	assert_null(s.ca_bundle);
	assert_int_equal(s.n_sockets, 0);
}

static void
compose_takes_max_mandatory_deny_search_depth(void **state)
{
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	policy_init(&c);
	p.depth = 3;
	c.depth = 10;
	compose(&p, &c, &r);
	assert_int_equal(r.depth, 10);
}

static void
compose_keeps_parent_depth_when_child_is_shallower(void **state)
{
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	policy_init(&c);
	p.depth = 10;
	c.depth = 3;
	compose(&p, &c, &r);
	assert_int_equal(r.depth, 10);
}

static void
clamp_floor_in_band_ceiling_monotone(void **state)
{
	unsigned last = 0;

	for (unsigned d = 0; d <= UINT8_MAX; d++) {
		cleanup(policy_done) struct policy p;
		unsigned e;

		policy_init(&p);
		p.depth = (uint8_t)d;
		e = policy_effective_depth(&p);
		assert_int_equal(e, d < 8 ? 8 : d > 40 ? 40 : d);
		assert_true(e >= last);
		last = e;
	}
}

/* ---- compose, list by list ---- */

static const struct {
	const char *label;
	enum koda_list list;
	const char *parent, *child, *want;
	bool parent_any, child_any;
} composes[] = {
	/* clang-format off */
	{ "allow_write: both absent", KODA_ALLOW_WRITE, NULL, NULL, "absent", 0, 0 },
	{ "allow_write: absent child inherits", KODA_ALLOW_WRITE, "/p,/q", NULL, "/p,/q", 0, 0 },
	{ "allow_write: absent parent permits nothing", KODA_ALLOW_WRITE, NULL, "/p", "", 0, 0 },
	{ "allow_write: empty child", KODA_ALLOW_WRITE, "/p", "", "", 0, 0 },
	{ "allow_write: empty parent", KODA_ALLOW_WRITE, "", "/p", "", 0, 0 },
	{ "allow_write: empty parent, absent child", KODA_ALLOW_WRITE, "", NULL, "", 0, 0 },
	{ "allow_write: child below parent", KODA_ALLOW_WRITE, "/p", "/p/a,/p/b", "/p/a,/p/b", 0, 0 },
	{ "allow_write: child above parent", KODA_ALLOW_WRITE, "/p/a,/p/b", "/p", "/p/a,/p/b", 0, 0 },
	{ "allow_write: a name that only begins so", KODA_ALLOW_WRITE, "/p", "/pq,/p/a", "/p/a", 0, 0 },
	{ "allow_write: crosswise", KODA_ALLOW_WRITE, "/a,/b/c", "/a/x,/b", "/a/x,/b/c", 0, 0 },
	{ "allow_write: everything", KODA_ALLOW_WRITE, "/", "/p", "/p", 0, 0 },
	{ "allow_write: what is covered goes", KODA_ALLOW_WRITE, "/p", "/p/a,/p", "/p", 0, 0 },
	{ "domains: absent child inherits", KODA_ALLOWED_DOMAINS, "a.test", NULL, "a.test", 0, 0 },
	{ "domains: absent parent permits nothing", KODA_ALLOWED_DOMAINS, NULL, "a.test", "", 0, 0 },
	{ "domains: same wildcard", KODA_ALLOWED_DOMAINS, "*.a.test", "*.a.test", "*.a.test", 0, 0 },
	{ "domains: exact within wildcard", KODA_ALLOWED_DOMAINS, "*.a.test", "x.a.test,y.b.test", "x.a.test", 0, 0 },
	{ "domains: wildcard over exact", KODA_ALLOWED_DOMAINS, "x.a.test", "*.a.test", "x.a.test", 0, 0 },
	{ "domains: wildcard is one label", KODA_ALLOWED_DOMAINS, "*.test", "x.a.test,*.a.test,a.test", "a.test", 0, 0 },
	{ "domains: wildcard is not the name", KODA_ALLOWED_DOMAINS, "*.a.test", "a.test", "", 0, 0 },
	{ "domains: port within the default two", KODA_ALLOWED_DOMAINS, "a.test", "a.test:443", "a.test:443", 0, 0 },
	{ "domains: port beside the default two", KODA_ALLOWED_DOMAINS, "a.test", "a.test:22", "", 0, 0 },
	{ "domains: other port", KODA_ALLOWED_DOMAINS, "a.test:80", "a.test:443", "", 0, 0 },
	{ "domains: wildcard and port crosswise", KODA_ALLOWED_DOMAINS, "*.a.test:8080", "x.a.test,x.a.test:8080", "x.a.test:8080", 0, 0 },
	{ "domains: port from both sides", KODA_ALLOWED_DOMAINS, "*.a.test:443", "x.a.test", "x.a.test:443", 0, 0 },
	{ "domains: parent any, child list", KODA_ALLOWED_DOMAINS, NULL, "a.test", "a.test", 1, 0 },
	{ "domains: parent any, child absent", KODA_ALLOWED_DOMAINS, "a.test", NULL, "a.test", 1, 0 },
	{ "domains: child any, its list too", KODA_ALLOWED_DOMAINS, "a.test", "b.test", "a.test", 0, 1 },
	{ "domains: child any, absent list", KODA_ALLOWED_DOMAINS, "a.test", NULL, "a.test", 0, 1 },
	{ "domains: both any", KODA_ALLOWED_DOMAINS, "a.test", "b.test", "b.test,a.test", 1, 1 },
	{ "domains: any-sni of both", KODA_ALLOWED_DOMAINS, "*.a.test any-sni", "x.a.test:443 any-sni", "x.a.test:443 any-sni", 0, 0 },
	{ "domains: any-sni of the parent", KODA_ALLOWED_DOMAINS, "a.test any-sni", "a.test", "a.test", 0, 0 },
	{ "domains: any-sni of the child", KODA_ALLOWED_DOMAINS, "a.test", "a.test any-sni", "a.test", 0, 0 },
	{ "domains: any-sni and without", KODA_ALLOWED_DOMAINS, "a.test,a.test any-sni", "a.test,a.test any-sni", "a.test,a.test any-sni", 0, 0 },
	{ "domains: any-sni against any", KODA_ALLOWED_DOMAINS, NULL, "a.test:80 any-sni", "a.test:80", 1, 0 },
	{ "domains: addresses against any", KODA_ALLOWED_DOMAINS, NULL, "10.0.0.1,[::1]:80,a.test", "a.test", 1, 0 },
	{ "domains: addresses that any and list name", KODA_ALLOWED_DOMAINS, "10.0.0.1", "10.0.0.1,10.0.0.2", "10.0.0.1", 1, 0 },
	{ "domains: addresses", KODA_ALLOWED_DOMAINS, "1.2.3.4,[::1]", "[::1]:443,1.2.3.4", "1.2.3.4,[::1]:443", 0, 0 },
	/* clang-format on */
};

static void
compose_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	policy_init(&c);
	set_list(&p, composes[i].list, composes[i].parent);
	set_list(&c, composes[i].list, composes[i].child);
	p.flag[KODA_ANY_DOMAIN] = composes[i].parent_any;
	c.flag[KODA_ANY_DOMAIN] = composes[i].child_any;
	compose(&p, &c, &r);
	assert_string_equal(list_text(&r, composes[i].list), composes[i].want);
	assert_int_equal(r.flag[KODA_ANY_DOMAIN], composes[i].parent_any && composes[i].child_any);
	assert_int_equal(policy_check(&r, NULL), 0);
}

static const struct {
	const char *label, *parent_deny, *parent_hole, *child_deny, *child_hole, *want;
} holes[] = {
	{ "hole: the parent's stays", "/a", "/a/x", NULL, NULL, "/a/x" },
	{ "hole: a child cannot open what the parent denies", "/a", NULL, NULL, "/a/x", "" },
	{ "hole: nor with a deny of its own", "/a", NULL, "/a", "/a/x", "" },
	{ "hole: a child's within its own deny", NULL, NULL, "/a", "/a/x", "/a/x" },
	{ "hole: a child closes the parent's", "/a", "/a/x", "/a/x", NULL, "" },
	{ "hole: a child closes above it", "/a/b", "/a/b/x", "/a", NULL, "" },
	{ "hole: a child narrows the parent's", "/a", "/a/x", "/a", "/a/x/y", "/a/x/y" },
	{ "hole: in both", "/a", "/a/x", "/a", "/a/x", "/a/x" },
	{ "hole: deny on a tie", "/a/x", "/a/x", NULL, NULL, "" },
	{ "hole: the child denies deeper within it", "/a", "/a/x", "/a/x/y", NULL, "/a/x" },
	{ "hole: absent on both sides", "/a", NULL, "/b", NULL, "absent" },
};

static void
hole_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p, c, r;

	policy_init(&p);
	policy_init(&c);
	set_list(&p, KODA_DENY_READ, holes[i].parent_deny);
	set_list(&p, KODA_ALLOW_READ_WITHIN_DENY, holes[i].parent_hole);
	set_list(&c, KODA_DENY_READ, holes[i].child_deny);
	set_list(&c, KODA_ALLOW_READ_WITHIN_DENY, holes[i].child_hole);
	compose(&p, &c, &r);
	assert_string_equal(list_text(&r, KODA_ALLOW_READ_WITHIN_DENY), holes[i].want);
}

static void
compose_refuses_more_rules_than_a_policy_may_have(void **state)
{
	cleanup(policy_done) struct policy p, c;
	struct policy r;
	struct koda_error err = { 0 };
	char rule[32];

	policy_init(&p);
	policy_init(&c);
	for (int i = 0; i < POLICY_RULES_MAX; i++) {
		snprintf(rule, sizeof(rule), "/a%d", i);
		add(&p, KODA_DENY_READ, rule);
	}
	assert_int_equal(policy_list_add(&p.list[KODA_DENY_READ], "/one/more", &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_int_equal(policy_list_add(&p.list[KODA_DENY_READ], "/a0", NULL), 0);
	set_list(&c, KODA_DENY_READ, "/b");
	err_clear(&err);
	assert_int_equal(policy_compose(&p, &c, &r, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
}

/* ---- reading ---- */

static const struct {
	const char *label, *path;
	bool want;
	const char *rule;
} reads[] = {
	{ "read: nothing names it", "/z", true, NULL },
	{ "read: denied", "/a", false, "/a" },
	{ "read: below a denied place", "/a/q", false, "/a" },
	{ "read: hole", "/a/x", true, "/a/x" },
	{ "read: below a hole", "/a/x/y", true, "/a/x" },
	{ "read: denied again within the hole", "/a/x/no", false, "/a/x/no" },
	{ "read: hole and deny at the same place", "/t", false, "/t" },
	{ "read: a hole without a deny opens nothing special", "/free/x", true, NULL },
	{ "read: a name that only begins so", "/ab", true, NULL },
};

static void
read_case(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p;
	const char *rule = "unset";

	policy_init(&p);
	set_list(&p, KODA_DENY_READ, "/a,/a/x/no,/t");
	set_list(&p, KODA_ALLOW_READ_WITHIN_DENY, "/a/x,/t,/free");
	assert_int_equal(policy_reads(&p, reads[i].path, &rule), reads[i].want);
	if (reads[i].rule == NULL)
		assert_null(rule);
	else
		assert_string_equal(rule, reads[i].rule);
}

/* ---- rules ---- */

static const struct {
	const char *label, *pattern, *want; /* part of the message; NULL: valid */
	enum policy_domain_use use;
} domains[] = {
	{ "domain: as somebody wrote it", "Example.Test.:8443", NULL, POLICY_DOMAIN_ALLOWS },
	{ "domain: any-sni where it allows", "a.test any-sni", NULL, POLICY_DOMAIN_ALLOWS },
	{ "domain: any-sni where it denies", "a.test any-sni", "in a rule that allows",
	    POLICY_DOMAIN_OTHER },
	{ "domain: no pattern", "a.*.test", "'a.*.test' in a rule is invalid: a '*'",
	    POLICY_DOMAIN_OTHER },
	{ "domain: international",
	    "b\xc3\xbc"
	    "cher.test",
	    "xn--", POLICY_DOMAIN_ALLOWS },
	{ "domain: is shown escaped", "a\x1b[2J.test", "a\\x1b[2J.test", POLICY_DOMAIN_ALLOWS },
	{ "domain: none", NULL, "the domain is missing", POLICY_DOMAIN_ALLOWS },
};

static void
domain_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };
	int r = policy_domain_check(domains[i].pattern, domains[i].use, &err);

	if (domains[i].want == NULL) {
		assert_int_equal(r, 0);
		return;
	}
	assert_int_equal(r, -1);
	assert_int_equal(err.code, KODA_INVALID);
	if (strstr(err.message, domains[i].want) == NULL)
		fail_msg("'%s' does not say '%s'", err.message, domains[i].want);
}

static const struct {
	const char *label, *path, *want;
} paths[] = {
	{ "path: absolute", "/a/b", NULL },
	{ "path: dots are for freezing to judge", "/a/../b", NULL },
	{ "path: relative", "a/b", "not absolute" },
	{ "path: home", "~/x", "not absolute" },
	{ "path: empty", "", "empty" },
};

static void
path_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };
	int r = policy_path_check(paths[i].path, &err);

	assert_int_equal(r, paths[i].want == NULL ? 0 : -1);
	if (paths[i].want != NULL)
		assert_non_null(strstr(err.message, paths[i].want));
}

/* ---- policy_check, as the worker applies it to received bytes: one thing wrong each ---- */

static void
wrong_relative(struct policy *p)
{
	add(p, KODA_ALLOW_WRITE, "relative");
}
static void
wrong_dotdot(struct policy *p)
{
	add(p, KODA_DENY_READ, "/a/../b");
}
static void
wrong_dot(struct policy *p)
{
	add(p, KODA_DENY_READ, "/a/.");
}
static void
wrong_double_slash(struct policy *p)
{
	add(p, KODA_DENY_WRITE_WITHIN_ALLOW, "/a//b");
}
static void
wrong_trailing_slash(struct policy *p)
{
	add(p, KODA_ALLOW_READ_WITHIN_DENY, "/a/");
}
static void
wrong_domain(struct policy *p)
{
	add(p, KODA_DENIED_DOMAINS, "*");
}
static void
wrong_case(struct policy *p)
{
	add(p, KODA_DENIED_DOMAINS, "A.test");
}
static void
wrong_dot_at_the_end(struct policy *p)
{
	add(p, KODA_ALLOWED_DOMAINS, "a.test.");
}
static void
wrong_any_sni(struct policy *p)
{
	add(p, KODA_DENIED_DOMAINS, "a.test any-sni");
}
static void
wrong_case_of_any_sni(struct policy *p)
{
	add(p, KODA_ALLOWED_DOMAINS, "a.test Any-sni");
}
static void
wrong_name_absolute(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "/.vscode");
}
static void
wrong_name_case(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, ".VSCode");
}
static void
wrong_name_dotdot(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "../x");
}
static void
wrong_name_empty(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "");
}
static void
wrong_name_slash_at_the_end(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "x/");
}
static void
wrong_name_star(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "x/*");
}
static void
wrong_name_stars(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "a*b*c");
}
static void
wrong_name_deep(struct policy *p)
{
	add(p, KODA_DENY_WRITE_NAMES, "a/b/c/d/e");
}
static void
wrong_trust(struct policy *p)
{
	p->trust = (enum koda_trust)0;
}
static void
wrong_trust_above(struct policy *p)
{
	p->trust = (enum koda_trust)4;
}
static void
wrong_ca_bundle(struct policy *p)
{
	free(p->ca_bundle);
	p->ca_bundle = strdup("ca.pem");
}
static void
wrong_socket_domain(struct policy *p)
{
	free(p->sockets[0].domain);
	p->sockets[0].domain = strdup("*");
}
static void
wrong_socket_path(struct policy *p)
{
	free(p->sockets[0].path);
	p->sockets[0].path = strdup("");
}

static void
wrong_limit(struct policy *p)
{
	p->limit[KODA_MAX_FILE_BYTES].value = (uint64_t)INT64_MAX + 1;
}
static void
wrong_wall_time(struct policy *p)
{
	p->limit[KODA_WALL_TIME_SECS].value = POLICY_WALL_TIME_MAX + 1;
}

static const struct {
	const char *label;
	void (*spoil)(struct policy *);
} wrongs[] = {
	{ "check: relative path", wrong_relative },
	{ "check: '..' in a path", wrong_dotdot },
	{ "check: '.' in a path", wrong_dot },
	{ "check: double slash", wrong_double_slash },
	{ "check: trailing slash", wrong_trailing_slash },
	{ "check: domain", wrong_domain },
	{ "check: domain in upper case", wrong_case },
	{ "check: domain with trailing dot", wrong_dot_at_the_end },
	{ "check: any-sni where it denies", wrong_any_sni },
	{ "check: any-sni in upper case", wrong_case_of_any_sni },
	{ "check: name that is absolute", wrong_name_absolute },
	{ "check: name in upper case", wrong_name_case },
	{ "check: name with '..'", wrong_name_dotdot },
	{ "check: empty name", wrong_name_empty },
	{ "check: name with a slash at its end", wrong_name_slash_at_the_end },
	{ "check: name that is a star", wrong_name_star },
	{ "check: name with two stars", wrong_name_stars },
	{ "check: name of five components", wrong_name_deep },
	{ "check: trust below", wrong_trust },
	{ "check: trust above", wrong_trust_above },
	{ "check: relative ca_bundle", wrong_ca_bundle },
	{ "check: socket domain", wrong_socket_domain },
	{ "check: socket path", wrong_socket_path },
	{ "check: a limit that no file system has", wrong_limit },
	{ "check: a wall time that nobody waits for", wrong_wall_time },
};

static void
wrong_case_of_check(void **state)
{
	size_t i = (uintptr_t)*state;
	cleanup(policy_done) struct policy p;
	cleanup_free uint8_t *bytes = NULL;
	struct koda_error err = { 0 };
	struct policy out;
	size_t len;

	fill(&p);
	assert_int_equal(policy_check(&p, &err), 0);
	wrongs[i].spoil(&p);
	assert_int_equal(policy_check(&p, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_int_equal(policy_pack(&p, &bytes, &len, NULL), 0);
	assert_int_equal(policy_unpack(bytes, len, &out, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
}

static void
check_wants_presence(void **state)
{
	cleanup(policy_done) struct policy p;

	fill(&p);
	p.list[KODA_ALLOW_WRITE].present = false;
	assert_int_equal(policy_check(&p, NULL), -1);
}

static void
check_wants_ca_bundle_for_sockets(void **state)
{
	cleanup(policy_done) struct policy p;

	fill(&p);
	free(p.ca_bundle);
	p.ca_bundle = NULL;
	assert_int_equal(policy_check(&p, NULL), -1);
}

/* ---- unpacking what our host never packs ---- */

static void
refuse_bytes(const uint8_t *bytes, size_t len)
{
	struct koda_error err = { 0 };
	struct policy p;

	assert_int_equal(policy_unpack(bytes, len, &p, &err), -1);
	assert_int_equal(err.code, KODA_PROTOCOL);
	assert_true(err.message[0] != '\0');
}

static void
unpack_refuses_depth_above_a_byte(void **state)
{
	cleanup(policy_done) struct policy p;
	Koda__Policy msg = KODA__POLICY__INIT;
	Koda__FsPolicy fs = KODA__FS_POLICY__INIT;
	uint8_t bytes[32];

	policy_init(&p);
	msg.fs = &fs;
	fs.has_mandatory_deny_search_depth = true;
	fs.mandatory_deny_search_depth = 255;
	assert_int_equal(policy_unpack(bytes, koda__policy__pack(&msg, bytes), &p, NULL), 0);
	assert_int_equal(p.depth, 255);
	fs.mandatory_deny_search_depth = 256;
	refuse_bytes(bytes, koda__policy__pack(&msg, bytes));
}

static void
unpack_refuses_nul_in_a_rule(void **state)
{
	Koda__Policy msg = KODA__POLICY__INIT;
	Koda__FsPolicy fs = KODA__FS_POLICY__INIT;
	Koda__PathList list = KODA__PATH_LIST__INIT;
	ProtobufCBinaryData path = { 5, (uint8_t *)"/a\0/b" };
	uint8_t bytes[64];

	list.n_path = 1;
	list.path = &path;
	fs.deny_read = &list;
	msg.fs = &fs;
	refuse_bytes(bytes, koda__policy__pack(&msg, bytes));
}

static void
unpack_refuses_unknown_trust(void **state)
{
	static const uint8_t bytes[] = { 4 << 3, 9 };

	refuse_bytes(bytes, sizeof(bytes));
}

static void
unpack_refuses_unknown_fields(void **state)
{
	static const uint8_t bytes[] = { 15 << 3, 1 };

	refuse_bytes(bytes, sizeof(bytes));
}

static void
unpack_refuses_a_scalar_twice(void **state)
{
	static const uint8_t bytes[] = { 4 << 3, 3, 4 << 3, 1 };

	refuse_bytes(bytes, sizeof(bytes));
}

static void
unpack_refuses_every_cut(void **state)
{
	cleanup(policy_done) struct policy p;
	cleanup_free uint8_t *bytes = NULL;
	size_t len, refused = 0;

	fill(&p);
	assert_int_equal(policy_pack(&p, &bytes, &len, NULL), 0);
	for (size_t i = 1; i < len; i++) {
		cleanup(policy_done) struct policy q;

		policy_init(&q);
		/* A cut between two fields of the outermost message leaves a shorter message. */
		if (policy_unpack(bytes, i, &q, NULL) < 0)
			refused++;
		else
			assert_false(policy_equal(&p, &q));
	}
	assert_true(refused >= len - 4);
}

static void
unpack_refuses_what_is_too_large(void **state)
{
	cleanup_free uint8_t *bytes = calloc(1, POLICY_PACKED_MAX + 1);

	assert_non_null(bytes);
	refuse_bytes(bytes, POLICY_PACKED_MAX + 1);
}

static void
pack_refuses_what_is_too_large(void **state)
{
	cleanup(policy_done) struct policy p;
	struct koda_error err = { 0 };
	char rule[1024];
	uint8_t *bytes = NULL;
	size_t len = 0;

	policy_init(&p);
	for (int i = 0; i < 600; i++) {
		memset(rule, 'a', sizeof(rule));
		snprintf(rule, sizeof(rule), "/%03d", i);
		rule[4] = 'a';
		rule[sizeof(rule) - 1] = '\0';
		add(&p, KODA_DENY_READ, rule);
	}
	assert_int_equal(policy_pack(&p, &bytes, &len, &err), -1);
	assert_int_equal(err.code, KODA_TOO_LARGE);
	assert_null(bytes);
}

/* ---- the struct ---- */

static void
copy_is_equal_and_apart(void **state)
{
	cleanup(policy_done) struct policy p, q;

	fill(&p);
	assert_int_equal(policy_copy(&q, &p, NULL), 0);
	assert_true(policy_equal(&p, &q));
	q.list[KODA_DENY_READ].v[0][1] = 'z';
	assert_string_equal(p.list[KODA_DENY_READ].v[0], "/a");
	assert_false(policy_equal(&p, &q));
}

/* If equality or the digest left out a field, a slot could get the worker of another slot. */
static void
every_field_counts(void **state)
{
	uint8_t before[KODA_DIGEST_BYTES], after[KODA_DIGEST_BYTES];
	cleanup(policy_done) struct policy p;
	cleanup_free uint8_t *first = NULL;
	size_t len, n_changes = KODA_N_LISTS * 2 + KODA_N_FLAGS + KODA_N_LIMITS * 2 + 5;

	fill(&p);
	assert_int_equal(policy_pack(&p, &first, &len, NULL), 0);
	policy_digest(first, len, before);
	for (size_t change = 0; change < n_changes; change++) {
		cleanup(policy_done) struct policy q;
		cleanup_free uint8_t *bytes = NULL;
		size_t k = change;

		fill(&q);
		if (k < KODA_N_LISTS)
			add(&q, (enum koda_list)k, k == KODA_DENY_WRITE_NAMES ? "new" : "/new");
		else if ((k -= KODA_N_LISTS) < KODA_N_LISTS)
			q.list[k].v[0][1] ^= 1;
		else if ((k -= KODA_N_LISTS) < KODA_N_FLAGS)
			q.flag[k] = !q.flag[k];
		else if ((k -= KODA_N_FLAGS) < KODA_N_LIMITS)
			q.limit[k].set = !q.limit[k].set;
		else if ((k -= KODA_N_LIMITS) < KODA_N_LIMITS)
			q.limit[k] = (struct policy_limit){ true, 4711 };
		else if ((k -= KODA_N_LIMITS) == 0)
			q.depth--;
		else if (k == 1)
			q.trust = KODA_TRUST_FORBID;
		else if (k == 2)
			q.ca_bundle[1]++;
		else if (k == 3)
			q.sockets[0].domain[0]++;
		else
			q.sockets[0].path[1]++;
		assert_false(policy_equal(&p, &q));
		assert_false(policy_equal(&q, &p));
		assert_int_equal(policy_pack(&q, &bytes, &len, NULL), 0);
		policy_digest(bytes, len, after);
		assert_memory_not_equal(before, after, sizeof(before));
	}
}

/* ---- showing ---- */

struct seen {
	char text[2048];
	int calls, stop_at;
};

static int
note(void *data, const char *section, const char *field, const char *value)
{
	struct seen *s = data;
	size_t n = strlen(s->text);

	snprintf(s->text + n, sizeof(s->text) - n, "%s.%s=%s\n", section, field,
	    value != NULL ? value : "-");
	return ++s->calls == s->stop_at ? 42 : 0;
}

static void
visit_tells_everything_in_order(void **state)
{
	cleanup(policy_done) struct policy p;
	struct seen seen = { 0 };

	fill(&p);
	assert_int_equal(policy_visit(&p, note, &seen), 0);
	assert_string_equal(seen.text,
	    "fs.deny_read=/a\nfs.deny_read=/b\nfs.allow_read_within_deny=/a/x\n"
	    "fs.allow_write=/w\nfs.allow_write=/v/u\nfs.deny_write_within_allow=/w/.git/hooks\n"
	    "fs.deny_write_names=.vscode\nfs.deny_write_names=.github/hooks\n"
	    "fs.allow_git_config=true\nfs.mandatory_deny_search_depth=255\n"
	    "fs.share_caches=false\n"
	    "net.allowed_domains=*.a.test:443\nnet.allowed_domains=x.a.test\n"
	    "net.allowed_domains=x.a.test:443\nnet.allowed_domains=[::1]:8080\n"
	    "net.denied_domains=bad.test\nnet.any_domain=false\nnet.allow_local_binding=true\n"
	    "net.weaker_macos_isolation=false\nnet.mitm.ca_bundle=/etc/ca.pem\n"
	    "net.mitm.socket_map=x.a.test=/run/s\nlimits.cpu_time_secs=0\n"
	    "limits.wall_time_secs=60\nlimits.max_rss_bytes=18446744073709551615\nlimits.max_file_bytes=9223372036854775807\n"
	    ".trust=require\n");
}

static void
visit_tells_absent_from_empty(void **state)
{
	cleanup(policy_done) struct policy p;
	struct seen seen = { 0 };

	policy_init(&p);
	p.list[KODA_ALLOW_WRITE].present = true;
	assert_int_equal(policy_visit(&p, note, &seen), 0);
	assert_string_equal(seen.text,
	    "fs.allow_write=-\nfs.allow_git_config=false\nfs.mandatory_deny_search_depth=3\n"
	    "fs.share_caches=false\n"
	    "net.any_domain=false\nnet.allow_local_binding=false\n"
	    "net.weaker_macos_isolation=false\n.trust=auto\n");
}

static void
visit_stops(void **state)
{
	cleanup(policy_done) struct policy p;
	struct seen all = { 0 };

	fill(&p);
	policy_visit(&p, note, &all);
	for (int i = 1; i <= all.calls; i++) {
		struct seen seen = { .stop_at = i };

		assert_int_equal(policy_visit(&p, note, &seen), 42);
		assert_int_equal(seen.calls, i);
	}
}

static void
names_are_those_of_the_schema(void **state)
{
	static const ProtobufCMessageDescriptor *const sections[] = {
		[POLICY_FS] = &koda__fs_policy__descriptor,
		[POLICY_NET] = &koda__net_policy__descriptor,
		[POLICY_LIMITS] = &koda__limits__descriptor,
		[POLICY_TOP] = &koda__policy__descriptor,
	};

	for (size_t i = 0; i < POLICY_N_FIELDS; i++)
		assert_non_null(
		    protobuf_c_message_descriptor_get_field_by_name(sections[policy_fields[i]
										 .section],
			policy_fields[i].name));
	assert_int_equal(koda__limits__descriptor.n_fields, KODA_N_LIMITS);
}

#define TABLE(rows, fn)                                                                            \
	for (uintptr_t i = 0; i < N_ELEMENTS(rows); i++)                                           \
		tests[n++] = (struct CMUnitTest)                                                   \
		{                                                                                  \
			rows[i].label, fn, NULL, NULL, (void *)i                                   \
		}

/* Long lists use a table, short ones compare: both keep each rule once, and in order. */
static void
long_lists_have_each_rule_once(void **state)
{
	static const size_t lengths[] = { 1, 15, 16, 17, 31, 32, 33, 64, 65, 1000 };

	for (size_t i = 0; i < N_ELEMENTS(lengths); i++) {
		struct policy_list list = { 0 };
		struct policy p;
		char rule[32];

		policy_init(&p);
		for (int round = 0; round < 2; round++)
			for (size_t k = 0; k < lengths[i]; k++) {
				snprintf(rule, sizeof(rule), "/d%zu", k);
				assert_int_equal(policy_list_add(&p.list[KODA_DENY_READ], rule,
						     NULL),
				    0);
			}
		list = p.list[KODA_DENY_READ];
		assert_int_equal(list.n, lengths[i]);
		for (size_t k = 0; k < lengths[i]; k++) {
			snprintf(rule, sizeof(rule), "/d%zu", k);
			assert_string_equal(list.v[k], rule);
		}
		policy_done(&p);
	}
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test(default_policy_is_empty_and_auto),
		cmocka_unit_test(fs_policy_default_has_safe_baseline_depth),
		cmocka_unit_test(policy_round_trips),
		cmocka_unit_test(long_lists_have_each_rule_once),
		cmocka_unit_test(an_empty_message_is_the_default_policy),
		cmocka_unit_test(presence_survives_packing),
		cmocka_unit_test(compose_with_default_child_is_identity_for_parent_denies),
		cmocka_unit_test(
		    compose_with_default_parent_keeps_child_denies_and_drops_its_allows),
		cmocka_unit_test(compose_unions_denies_so_child_can_add_restrictions),
		cmocka_unit_test(compose_union_dedupes_overlapping_denies),
		cmocka_unit_test(compose_drops_child_allow_writes_so_child_cannot_widen),
		cmocka_unit_test(compose_flags_are_logical_and),
		cmocka_unit_test(compose_limits_take_minimum_with_none_meaning_unlimited),
		cmocka_unit_test(compose_trust_picks_strictest),
		cmocka_unit_test(compose_idempotent_with_self),
		cmocka_unit_test(compose_mitm_inherited_from_parent_only),
		cmocka_unit_test(compose_takes_max_mandatory_deny_search_depth),
		cmocka_unit_test(compose_keeps_parent_depth_when_child_is_shallower),
		cmocka_unit_test(clamp_floor_in_band_ceiling_monotone),
		cmocka_unit_test(compose_refuses_more_rules_than_a_policy_may_have),
		cmocka_unit_test(check_wants_presence),
		cmocka_unit_test(check_wants_ca_bundle_for_sockets),
		cmocka_unit_test(unpack_refuses_depth_above_a_byte),
		cmocka_unit_test(unpack_refuses_nul_in_a_rule),
		cmocka_unit_test(unpack_refuses_unknown_trust),
		cmocka_unit_test(unpack_refuses_unknown_fields),
		cmocka_unit_test(unpack_refuses_a_scalar_twice),
		cmocka_unit_test(unpack_refuses_every_cut),
		cmocka_unit_test(unpack_refuses_what_is_too_large),
		cmocka_unit_test(pack_refuses_what_is_too_large),
		cmocka_unit_test(copy_is_equal_and_apart),
		cmocka_unit_test(every_field_counts),
		cmocka_unit_test(visit_tells_everything_in_order),
		cmocka_unit_test(visit_tells_absent_from_empty),
		cmocka_unit_test(visit_stops),
		cmocka_unit_test(names_are_those_of_the_schema),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(composes) + N_ELEMENTS(holes) +
	    N_ELEMENTS(reads) + N_ELEMENTS(domains) + N_ELEMENTS(paths) + N_ELEMENTS(wrongs)];
	size_t n = 0;

	OTHERS(single);
	TABLE(composes, compose_case);
	TABLE(holes, hole_case);
	TABLE(reads, read_case);
	TABLE(domains, domain_case);
	TABLE(paths, path_case);
	TABLE(wrongs, wrong_case_of_check);
	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
