/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random policies over a small tree of places and hosts, so that rules overlap often. Each test
 * also counts how often its property applied, and fails if it never did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "shared/rules/egress.h"
#include "shared/rules/policy_field.h"
#include "tests/kit/random.h"

#define PAIRS 25000
/* Questions to each pair: 200,000 in all. */
#define PLACES 8
#define FEWER  (PAIRS / 5) /* when both sides are the same policy */

static uint64_t seed = 0x6b6f6461; /* KODA_TEST_SEED overrides */
#define PICK(table) (table)[draw(N_ELEMENTS(table))]

static const char *
draw_path(bool place)
{
	static const char *const names[] = { "a", "b", "ab", "a", "b", ".git", "config", "ax" };
	static char path[64];
	/* A place is deep enough that it is not refused as top-level; a rule may be "/". */
	unsigned depth = place ? 2 + draw(3) : draw(4);

	strcpy(path, depth == 0 ? "/" : "");
	while (depth-- > 0) {
		strcat(path, "/");
		strcat(path, PICK(names));
	}
	return path;
}

/* Returns a name that, in most cases, few places contain. */
static const char *
draw_name(void)
{
	static const char *const names[] = { "a/b/a", "ab", "b/ab", "ax", "a*x", "config", "b*/a",
		"no" };

	return PICK(names);
}

/* Public and other addresses, also in a form that embeds another address. */
static const char *const literals[] = { "10.0.0.1", "[::1]", "8.8.8.8", "[::ffff:10.0.0.1]" };

static const char *
draw_pattern(bool allows)
{
	static const char *const names[] = { "t", "a.t", "b.t", "x.a.t", "y.a.t", "*.t", "*.a.t",
		"*.x.a.t" };
	static const char *const ports[] = { "", "", "", ":80", ":443", ":22" };
	static char pattern[64];

	snprintf(pattern, sizeof(pattern), "%s%s%s", draw(4) == 0 ? PICK(literals) : PICK(names),
	    PICK(ports), allows && draw(4) == 0 ? " any-sni" : "");
	return pattern;
}

static const char *
draw_host(unsigned *port)
{
	static const char *const hosts[] = { "t", "a.t", "b.t", "x.a.t", "y.a.t", "z.a.t",
		"w.x.a.t", "c.t", "ba.t" };
	static const unsigned ports[] = { 80, 443, 443, 22, 8080 };

	*port = PICK(ports);
	return draw(4) == 0 ? PICK(literals) : PICK(hosts);
}

static void
draw_policy(struct policy *p)
{
	policy_init(p);
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		struct policy_list *l = &p->list[i];
		unsigned n = draw(5);

		if (n == 4) /* absent */
			continue;
		l->present = true;
		while (n-- > 0)
			assert_int_equal(policy_list_add(l,
					     i == KODA_DENY_WRITE_NAMES ? draw_name()
						 : i == KODA_ALLOWED_DOMAINS ||
						     i == KODA_DENIED_DOMAINS
						 ? draw_pattern(i == KODA_ALLOWED_DOMAINS)
						 : draw_path(false),
					     NULL),
			    0);
	}
	for (size_t i = 0; i < KODA_N_FLAGS; i++)
		p->flag[i] = draw(4) == 0;
	for (size_t i = 0; i < KODA_N_LIMITS; i++)
		p->limit[i] = (struct policy_limit){ draw(2) != 0, draw(4) };
	for (size_t i = 0; i < KODA_N_LIMITS; i++) {
		if (!p->limit[i].set)
			p->limit[i].value = 0;
	}
	p->depth = (uint8_t)draw(256);
	p->trust = draw(8) == 0 ? KODA_TRUST_FORBID
	    : draw(2) == 0      ? KODA_TRUST_REQUIRE
				: KODA_TRUST_AUTO;
	if (draw(4) == 0) {
		p->ca_bundle = strdup(draw_path(true));
		p->sockets = calloc(1, sizeof(*p->sockets));
		assert_non_null(p->sockets);
		p->sockets[0] =
		    (struct policy_socket){ strdup(draw_pattern(false)), strdup(draw_path(true)) };
		p->n_sockets = 1;
	}
	assert_int_equal(policy_check(p, NULL), 0);
}

/* Each host and each literal on each port that is drawn. */
static const char *const everything[] = { "10.0.0.1 any-sni", "10.0.0.1:22 any-sni",
	"10.0.0.1:8080 any-sni", "[::1] any-sni", "[::1]:22 any-sni", "[::1]:8080 any-sni",
	"8.8.8.8 any-sni", "8.8.8.8:22 any-sni", "8.8.8.8:8080 any-sni",
	"[::ffff:10.0.0.1] any-sni", "[::ffff:10.0.0.1]:22 any-sni",
	"[::ffff:10.0.0.1]:8080 any-sni", "t any-sni", "t:22 any-sni", "*.t any-sni",
	"*.t:22 any-sni", "*.a.t any-sni", "*.a.t:22 any-sni", "*.x.a.t any-sni",
	"*.x.a.t:22 any-sni" };

/* Copies a policy and makes the absent lists of a child explicit: the child inherits them, so
 * they refuse nothing by themselves. */
static void
as_child(const struct policy *p, struct policy *ret)
{
	assert_int_equal(policy_copy(ret, p, NULL), 0);
	if (!p->list[KODA_ALLOW_WRITE].present)
		assert_int_equal(policy_list_add(&ret->list[KODA_ALLOW_WRITE], "/", NULL), 0);
	if (p->list[KODA_ALLOWED_DOMAINS].present)
		return;
	ret->flag[KODA_ANY_DOMAIN] = true;
	/* any_domain alone would refuse addresses, and another TLS name. */
	for (size_t i = 0; i < N_ELEMENTS(everything); i++)
		assert_int_equal(policy_list_add(&ret->list[KODA_ALLOWED_DOMAINS], everything[i],
				     NULL),
		    0);
}

static bool
may(const struct policy *p, enum access_op op, const char *path)
{
	struct access_subject who = { p, KODA_AUTO, "", NULL };

	return access_judge(&who, op, path, NULL).allowed;
}

/* A policy's verdicts on a host: as the target of a connection, and as an address that a name
 * resolves to. */
struct reach {
	bool host, any_sni;
	/* Index: whether the address is this machine's. */
	bool address[2];
};

static struct reach
reach_of(const struct policy *p, const char *host, unsigned port)
{
	struct egress_rules *rules = egress_rules_new(p, NULL);
	struct sockaddr_storage addr;
	struct egress_verdict v;
	struct reach ret;
	socklen_t len;
	bool literal = address_parse(host, port, &addr, &len);

	assert_non_null(rules);
	v = egress_judge(rules, host,
	    !literal             ? DOMAIN_NAME
		: host[0] == '[' ? DOMAIN_IPV6
				 : DOMAIN_IPV4,
	    port);
	ret = (struct reach){ .host = v.decision == EGRESS_ALLOW, .any_sni = v.any_sni };
	for (int own = 0; literal && own < 2; own++)
		ret.address[own] =
		    egress_judge_address(rules, (struct sockaddr *)&addr, port, own != 0)
			.decision == EGRESS_ALLOW;
	egress_rules_free(rules);
	return ret;
}

static bool
is_within(struct reach a, struct reach b)
{
	return a.host <= b.host && (!a.host || a.any_sni <= b.any_sni) &&
	    a.address[0] <= b.address[0] && a.address[1] <= b.address[1];
}

static void
print_list(const char *side, const struct policy *p)
{
	for (size_t i = 0; i < KODA_N_LISTS; i++) {
		print_message("# %s %s%s:", side, policy_field_of_list((enum koda_list)i)->name,
		    p->list[i].present ? "" : " (absent)");
		for (size_t k = 0; k < p->list[i].n; k++)
			print_message(" %s", p->list[i].v[k]);
		print_message("\n");
	}
	print_message("# %s git %d any %d trust %d\n", side, p->flag[KODA_ALLOW_GIT_CONFIG],
	    p->flag[KODA_ANY_DOMAIN], (int)p->trust);
}

static void
broken(const char *what, const char *where, unsigned port, const struct policy *p,
    const struct policy *c, const struct policy *r)
{
	print_list("parent", p);
	print_list("child", c);
	print_list("composed", r);
	fail_msg("%s: %s %u (seed %#llx)", what, where, port, (unsigned long long)seed);
}

/* ---- the composition allows only what both sides allow ---- */

static void
compose_never_widens(void **state)
{
	static const enum access_op ops[] = { ACCESS_OP_READ, ACCESS_OP_WRITE, ACCESS_OP_RENAME_TO,
		ACCESS_OP_HOP_CHANGE };
	size_t reads = 0, holes = 0, writes = 0, reached = 0, any_sni = 0, addresses = 0;

	for (size_t i = 0; i < PAIRS; i++) {
		cleanup(policy_done) struct policy p, c, eff, r;

		draw_policy(&p);
		draw_policy(&c);
		as_child(&c, &eff);
		assert_int_equal(policy_compose(&p, &c, &r, NULL), 0);
		assert_int_equal(policy_check(&r, NULL), 0);
		for (size_t k = 0; k < PLACES; k++) {
			const char *path = draw_path(true), *host, *by;
			struct reach reach;
			unsigned port;

			for (size_t o = 0; o < N_ELEMENTS(ops); o++) {
				if (!may(&r, ops[o], path))
					continue;
				if (!may(&p, ops[o], path) || !may(&eff, ops[o], path))
					broken(ops[o] == ACCESS_OP_READ ? "read" : "change", path,
					    0, &p, &c, &r);
				reads += ops[o] == ACCESS_OP_READ;
				writes += ops[o] == ACCESS_OP_WRITE;
			}
			holes += policy_reads(&r, path, &by) && by != NULL;
			host = draw_host(&port);
			reach = reach_of(&r, host, port);
			if (!is_within(reach, reach_of(&p, host, port)) ||
			    !is_within(reach, reach_of(&eff, host, port)))
				broken("host", host, port, &p, &c, &r);
			reached += reach.host;
			any_sni += reach.host && reach.any_sni;
			addresses += reach.address[true];
		}
		for (size_t k = 0; k < KODA_N_LIMITS; k++) {
			uint64_t pv = p.limit[k].set ? p.limit[k].value : UINT64_MAX;
			uint64_t cv = c.limit[k].set ? c.limit[k].value : UINT64_MAX;

			assert_true((r.limit[k].set ? r.limit[k].value : UINT64_MAX) ==
			    (pv < cv ? pv : cv));
		}
	}
	print_message("# %zu reads, %zu by a hole, %zu writes, %zu hosts were allowed\n", reads,
	    holes, writes, reached);
	assert_true(reads > PAIRS / 4 && holes > PAIRS / 100);
	assert_true(writes > PAIRS / 10 && reached > PAIRS / 10);
	assert_true(any_sni > PAIRS / 200 && addresses > PAIRS / 200);
}

/* ---- and refuses no change and no host that both allow (reading may become narrower; so may
 * addresses and any-sni next to an any_domain) ---- */

static void
compose_is_the_intersection(void **state)
{
	size_t writes = 0, reached = 0;

	for (size_t i = 0; i < PAIRS; i++) {
		cleanup(policy_done) struct policy p, c, eff, r;
		bool inherits_everything, beside_any;

		draw_policy(&p);
		draw_policy(&c);
		as_child(&c, &eff);
		assert_int_equal(policy_compose(&p, &c, &r, NULL), 0);
		/* A parent's any_domain does not pass to a child that does not set it too. */
		inherits_everything = p.flag[KODA_ANY_DOMAIN] &&
		    !c.list[KODA_ALLOWED_DOMAINS].present && !c.flag[KODA_ANY_DOMAIN];
		for (size_t k = 0; k < PLACES; k++) {
			const char *path = draw_path(true), *host;
			unsigned port;

			if (may(&p, ACCESS_OP_WRITE, path) && may(&eff, ACCESS_OP_WRITE, path) &&
			    policy_reads(&r, path, NULL)) {
				if (!may(&r, ACCESS_OP_WRITE, path))
					broken("lost write", path, 0, &p, &c, &r);
				writes++;
			}
			host = draw_host(&port);
			beside_any = (p.flag[KODA_ANY_DOMAIN] || eff.flag[KODA_ANY_DOMAIN]) &&
			    (host[0] == '[' || host[0] <= '9');
			if (!inherits_everything && !beside_any && reach_of(&p, host, port).host &&
			    reach_of(&eff, host, port).host) {
				if (!reach_of(&r, host, port).host)
					broken("lost host", host, port, &p, &c, &r);
				reached++;
			}
		}
	}
	assert_true(writes > PAIRS / 10 && reached > PAIRS / 10);
}

/* ---- if all names of a directory may be read, each of them may ---- */

static void
reading_all_is_reading_each(void **state)
{
	static const char *const dirs[] = { "/", "/proc", "/proc/1", "/a/.config",
		"/a/.config/koda", "/a/.CONFIG/Koda.", "/koda" };
	static const char *const names[] = { "a", "b", "ab", ".git", "config", "db", "DB", "proc",
		"koda", ".config" };
	size_t all = 0, not_all = 0;

	for (size_t i = 0; i < PAIRS; i++) {
		cleanup(policy_done) struct policy p;
		const struct access_subject who = { &p, KODA_AUTO, "", NULL };

		draw_policy(&p);
		for (size_t k = 0; k < PLACES; k++) {
			char dir[64], path[128];
			bool each = true;

			snprintf(dir, sizeof(dir), "%s",
			    draw(4) == 0 ? PICK(dirs) : draw_path(false));
			for (size_t n = 0; n < N_ELEMENTS(names); n++) {
				snprintf(path, sizeof(path), "%s/%s", dir[1] == '\0' ? "" : dir,
				    names[n]);
				each = each && may(&p, ACCESS_OP_READ, path);
			}
			if (access_reads_all_in(&who, dir)) {
				if (!each)
					broken("all of it", dir, 0, &p, &p, &p);
				all++;
			} else {
				not_all++;
			}
		}
	}
	assert_true(all > PAIRS && not_all > PAIRS);
}

/* ---- compose(p, p) equals p ---- */

static void
compose_with_itself_changes_nothing(void **state)
{
	size_t refused = 0, allowed = 0;

	for (size_t i = 0; i < FEWER; i++) {
		cleanup(policy_done) struct policy p, r, again;

		draw_policy(&p);
		assert_int_equal(policy_compose(&p, &p, &r, NULL), 0);
		for (size_t k = 0; k < PLACES; k++) {
			const char *path = draw_path(true), *host;
			unsigned port;

			for (int op = ACCESS_OP_READ; op <= ACCESS_OP_HOP_CHANGE; op++) {
				bool want = may(&p, (enum access_op)op, path);

				if (may(&r, (enum access_op)op, path) != want)
					broken("itself", path, (unsigned)op, &p, &p, &r);
				*(want ? &allowed : &refused) += 1;
			}
			host = draw_host(&port);
			if (!is_within(reach_of(&p, host, port), reach_of(&r, host, port)) ||
			    !is_within(reach_of(&r, host, port), reach_of(&p, host, port)))
				broken("itself", host, port, &p, &p, &r);
		}
		/* Once a hole is dropped that a deny of the same place closes, not even the text
		 * changes. */
		assert_int_equal(policy_compose(&r, &r, &again, NULL), 0);
		if (!policy_equal(&r, &again))
			broken("text", "", 0, &r, &r, &again);
	}
	assert_true(refused > FEWER && allowed > FEWER);
}

/* ---- each field of a composition, written out ---- */

static void
assert_list(const struct policy_list *have, const struct policy_list *want)
{
	assert_int_equal(have->present, want->present);
	assert_int_equal(have->n, want->n);
	for (size_t i = 0; i < want->n; i++)
		assert_string_equal(have->v[i], want->v[i]);
}

static void
assert_union(enum koda_list which, const struct policy *p, const struct policy *c,
    const struct policy *r)
{
	const struct policy_list *pl = &p->list[which], *cl = &c->list[which];
	struct policy_list want = { .present = pl->present || cl->present };

	for (size_t i = 0; i < pl->n; i++)
		assert_int_equal(policy_list_add(&want, pl->v[i], NULL), 0);
	for (size_t i = 0; i < cl->n; i++)
		assert_int_equal(policy_list_add(&want, cl->v[i], NULL), 0);
	assert_list(&r->list[which], &want);
	policy_list_done(&want);
}

static void
compose_gives_each_field_its_own(void **state)
{
	static const enum koda_list denies[] = { KODA_DENY_READ, KODA_DENY_WRITE_WITHIN_ALLOW,
		KODA_DENY_WRITE_NAMES, KODA_DENIED_DOMAINS };
	static const enum koda_list allows[] = { KODA_ALLOW_WRITE, KODA_ALLOWED_DOMAINS };
	const enum koda_list holes = KODA_ALLOW_READ_WITHIN_DENY;

	for (size_t i = 0; i < FEWER; i++) {
		cleanup(policy_done) struct policy p, c, r;

		draw_policy(&p);
		draw_policy(&c);
		assert_int_equal(policy_compose(&p, &c, &r, NULL), 0);
		for (size_t k = 0; k < N_ELEMENTS(denies); k++)
			assert_union(denies[k], &p, &c, &r);
		assert_int_equal(r.list[holes].present,
		    p.list[holes].present || c.list[holes].present);
		for (size_t k = 0; k < N_ELEMENTS(allows); k++) {
			if (c.list[allows[k]].present)
				assert_true(r.list[allows[k]].present);
			else
				assert_list(&r.list[allows[k]], &p.list[allows[k]]);
		}
		for (size_t k = 0; k < KODA_N_FLAGS; k++)
			assert_int_equal(r.flag[k], p.flag[k] && c.flag[k]);
		for (size_t k = 0; k < KODA_N_LIMITS; k++)
			assert_int_equal(r.limit[k].set, p.limit[k].set || c.limit[k].set);
		assert_int_equal(r.depth, p.depth > c.depth ? p.depth : c.depth);
		assert_int_equal(r.trust, p.trust > c.trust ? p.trust : c.trust);
		assert_int_equal(r.ca_bundle != NULL, p.ca_bundle != NULL);
		assert_int_equal(r.n_sockets, p.n_sockets);
		if (p.ca_bundle != NULL) {
			assert_string_equal(r.ca_bundle, p.ca_bundle);
			assert_string_equal(r.sockets[0].domain, p.sockets[0].domain);
			assert_string_equal(r.sockets[0].path, p.sockets[0].path);
		}
	}
}

/* ---- an absent list is not an empty one, and a limit that is not set is not 0 ---- */

static int
note(void *data, const char *section, const char *field, const char *value)
{
	fprintf(data, "%s.%s=%s\n", section, field, value != NULL ? value : "-");
	return 0;
}

static char *
text_of(const struct policy *p)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	assert_non_null(to);
	assert_int_equal(policy_visit(p, note, to), 0);
	assert_int_equal(fclose(to), 0);
	return text;
}

static void
assert_differ(const struct policy *a, const struct policy *b)
{
	const struct policy *const both[] = { a, b };
	uint8_t *bytes[2] = { NULL, NULL };
	cleanup_free char *ta = text_of(a), *tb = text_of(b);
	size_t len[2];

	assert_false(policy_equal(a, b));
	assert_false(policy_equal(b, a));
	assert_string_not_equal(ta, tb);
	for (size_t i = 0; i < 2; i++) {
		cleanup(policy_done) struct policy again, copy;

		assert_int_equal(policy_pack(both[i], &bytes[i], &len[i], NULL), 0);
		assert_int_equal(policy_unpack(bytes[i], len[i], &again, NULL), 0);
		assert_true(policy_equal(both[i], &again));
		assert_int_equal(policy_copy(&copy, both[i], NULL), 0);
		assert_true(policy_equal(both[i], &copy));
	}
	assert_true(len[0] != len[1] || memcmp(bytes[0], bytes[1], len[0]) != 0);
	free(bytes[0]);
	free(bytes[1]);
}

static void
absent_is_not_empty(void **state)
{
	size_t lists = 0, limits = 0;

	for (size_t i = 0; i < FEWER; i++) {
		cleanup(policy_done) struct policy p, q;
		const unsigned list = draw(KODA_N_LISTS), limit = draw(KODA_N_LIMITS);

		draw_policy(&p);
		assert_int_equal(policy_copy(&q, &p, NULL), 0);
		if (p.list[list].n == 0) {
			q.list[list].present = !p.list[list].present;
			assert_differ(&p, &q);
			q.list[list].present = p.list[list].present;
			lists++;
		}
		/* What is left of a limit that is not set does not count. */
		q.limit[limit] = (struct policy_limit){ p.limit[limit].set,
			p.limit[limit].set ? p.limit[limit].value : 1 + draw(9) };
		assert_true(policy_equal(&p, &q));
		p.limit[limit] = (struct policy_limit){ false, 0 };
		q.limit[limit] = (struct policy_limit){ true, 0 };
		assert_differ(&p, &q);
		limits++;
	}
	assert_true(lists > FEWER / 10 && limits == FEWER);
}

/* ---- unpacking returns what was packed ---- */

static void
pack_and_unpack_round_trip(void **state)
{
	for (size_t i = 0; i < FEWER; i++) {
		cleanup(policy_done) struct policy p, q;
		cleanup_free uint8_t *bytes = NULL, *again = NULL;
		struct koda_error err = { 0 };
		size_t len, again_len;

		draw_policy(&p);
		policy_init(&q);
		assert_int_equal(policy_pack(&p, &bytes, &len, &err), 0);
		if (policy_unpack(bytes, len, &q, &err) < 0)
			fail_msg("%s (seed %#llx)", err.message, (unsigned long long)seed);
		if (!policy_equal(&p, &q))
			broken("round trip", "", 0, &p, &q, &q);
		assert_int_equal(policy_pack(&q, &again, &again_len, NULL), 0);
		assert_int_equal(len, again_len);
		assert_memory_equal(bytes, again, len);
	}
}

/* Random changes of valid bytes: the result is an error, or a sound policy that packs again.
 * Never a crash. */
static void
unpack_survives_spoilt_bytes(void **state)
{
	size_t good = 0, bad = 0;

	for (size_t i = 0; i < FEWER; i++) {
		cleanup(policy_done) struct policy p, q;
		cleanup_free uint8_t *bytes = NULL, *again = NULL;
		size_t len, again_len;

		draw_policy(&p);
		policy_init(&q);
		assert_int_equal(policy_pack(&p, &bytes, &len, NULL), 0);
		for (unsigned n = 1 + draw(3); n > 0; n--)
			bytes[draw((unsigned)len)] = (uint8_t)draw(256);
		if (policy_unpack(bytes, len, &q, NULL) < 0) {
			bad++;
			continue;
		}
		assert_int_equal(policy_check(&q, NULL), 0);
		assert_int_equal(policy_pack(&q, &again, &again_len, NULL), 0);
		good++;
	}
	print_message("# of %d spoilt policies %zu were refused\n", FEWER, bad);
	assert_true(bad > FEWER / 4 && good > 0);
}

static int
reseed(void **state)
{
	draw_rng.s = seed;
	return 0;
}

/* ---- the rules above a path ---- */

/* What policy_list_first_above() and policy_list_longest_above() say, by comparing with each rule. */
static size_t
first_compared(const struct policy_list *list, const char *path, bool longest)
{
	size_t ret = list->n;

	for (size_t i = 0; i < list->n; i++) {
		if (!path_is_inside(path, list->v[i]))
			continue;
		if (ret == list->n || (longest && strlen(list->v[i]) > strlen(list->v[ret])))
			ret = i;
	}
	return ret;
}

static void
rules_above_are_found(void **state)
{
	size_t found = 0, with_table = 0;

	for (int i = 0; i < PAIRS / 5; i++) {
		struct policy_list list = { 0 };

		for (unsigned n = draw(60); n > 0; n--)
			assert_int_equal(policy_list_add(&list, draw_path(draw(2) == 0), NULL), 0);
		with_table += list.n_slots > 0;
		for (int k = 0; k < PLACES; k++) {
			const char *path = draw_path(draw(4) != 0);
			const size_t first = policy_list_first_above(&list, path);

			assert_int_equal(first, first_compared(&list, path, false));
			assert_int_equal(policy_list_longest_above(&list, path),
			    first_compared(&list, path, true));
			found += first < list.n;
		}
		policy_list_done(&list);
	}
	assert_true(found > 0);
	assert_true(with_table > 0 && with_table < PAIRS / 5);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_above_are_found),
		cmocka_unit_test_setup(compose_never_widens, reseed),
		cmocka_unit_test_setup(compose_is_the_intersection, reseed),
		cmocka_unit_test_setup(reading_all_is_reading_each, reseed),
		cmocka_unit_test_setup(compose_with_itself_changes_nothing, reseed),
		cmocka_unit_test_setup(compose_gives_each_field_its_own, reseed),
		cmocka_unit_test_setup(absent_is_not_empty, reseed),
		cmocka_unit_test_setup(pack_and_unpack_round_trip, reseed),
		cmocka_unit_test_setup(unpack_survives_spoilt_bytes, reseed),
	};
	const char *given = getenv("KODA_TEST_SEED");

	if (given != NULL)
		seed = strtoull(given, NULL, 0);
	if (seed == 0)
		seed = 1; /* the generator's only fixed point */
	print_message("# seed %#llx\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("policy_property", tests, NULL, NULL);
}
