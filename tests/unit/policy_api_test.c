/* SPDX-License-Identifier: Apache-2.0 */
/* host/policy/policy_api.c: policies through the public header. */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "host/policy/policy_api.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"
#include "tests/kit/skip.h"

/* ---- a directory of its own for each test: real/, link -> real, dangling -> real/later ---- */

static char dir[PATH_MAX];
static struct koda_policy *policy;

static const char *
in_dir(const char *name)
{
	static char path[4][PATH_MAX + 64];
	static unsigned turn;
	char *p = path[turn++ % N_ELEMENTS(path)];

	snprintf(p, sizeof(path[0]), "%s%s", dir, name);
	return p;
}

static int
setup(void **state)
{
	char name[PATH_MAX];
	const char *tmp = getenv("TMPDIR");

	snprintf(name, sizeof(name), "%s/policy.XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(name) == NULL || realpath(name, dir) == NULL)
		return -1;
	assert_int_equal(mkdir(in_dir("/real"), 0755), 0);
	assert_int_equal(symlink("real", in_dir("/link")), 0);
	assert_int_equal(symlink("real/later", in_dir("/dangling")), 0);
	assert_int_equal(symlink(in_dir("/loop2"), in_dir("/loop1")), 0);
	assert_int_equal(symlink("loop1", in_dir("/loop2")), 0);
	assert_int_equal(close(open(in_dir("/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);
	policy = koda_policy_new();
	return policy != NULL ? 0 : -1;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int
teardown(void **state)
{
	koda_policy_free(policy);
	policy = NULL;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void
add(enum koda_list list, const char *rule)
{
	struct koda_error err = { 0 };

	if (koda_policy_add(policy, list, rule, &err) < 0)
		fail_msg("%s", err.message);
}

static void
freeze(struct koda_policy *p)
{
	struct koda_error err = { 0 };

	if (koda_policy_freeze(p, &err) < 0)
		fail_msg("%s", err.message);
}

static const struct policy_list *
list_of(const struct koda_policy *p, enum koda_list list)
{
	return &koda_policy_get(p)->list[list];
}

/* ---- freezing ---- */

static const struct {
	const char *label, *written, *want; /* below the test's directory */
	/* what a deny keeps besides; NULL: nothing */
	const char *also;
} freezes[] = {
	{ "freeze: as it is", "/real/x", "/real/x", NULL },
	{ "freeze: link", "/link", "/real", "/link" },
	{ "freeze: below a link", "/link/x/y", "/real/x/y", "/link/x/y" },
	{ "freeze: missing tail", "/real/no/such/place", "/real/no/such/place", NULL },
	{ "freeze: dangling link", "/dangling", "/real/later", "/dangling" },
	{ "freeze: below a dangling link", "/dangling/x", "/real/later/x", "/dangling/x" },
	{ "freeze: dots and slashes", "//real/./x//", "/real/x", NULL },
	{ "freeze: dots in the missing tail", "/no/./such//x/", "/no/such/x", NULL },
	{ "freeze: '..' where something is", "/real/../file", "/file", NULL },
	{ "freeze: '..' behind a link", "/link/../file", "/file", NULL },
	{ "freeze: below a file", "/file/x", "/file/x", NULL },
};

static void
freeze_case(void **state)
{
	static const enum koda_list lists[] = { KODA_ALLOW_WRITE, KODA_ALLOW_READ_WITHIN_DENY,
		KODA_DENY_READ, KODA_DENY_WRITE_WITHIN_ALLOW };
	size_t i = (uintptr_t)*state;

	for (size_t k = 0; k < N_ELEMENTS(lists); k++)
		add(lists[k], in_dir(freezes[i].written));
	freeze(policy);
	for (size_t k = 0; k < N_ELEMENTS(lists); k++) {
		const struct policy_list *l = list_of(policy, lists[k]);
		bool both = k >= 2 && freezes[i].also != NULL;

		assert_int_equal(l->n, both ? 2 : 1);
		assert_string_equal(l->v[l->n - 1], in_dir(freezes[i].want));
		if (both)
			assert_string_equal(l->v[0], in_dir(freezes[i].also));
	}
}

static const struct {
	const char *label, *written, *want;
} unfreezable[] = {
	{ "freeze refuses: '..' behind what is missing", "/no/../x", "'..'" },
	{ "freeze refuses: '..' behind a dangling link", "/dangling/../x", "'..'" },
	{ "freeze refuses: '..' behind a file", "/file/x/..", "'..'" },
	{ "freeze refuses: a cycle", "/loop1/x", "symbolic links" },
};

static void
unfreezable_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct koda_error err = { 0 };

	add(KODA_ALLOW_WRITE, in_dir("/link"));
	add(KODA_DENY_READ, in_dir(unfreezable[i].written));
	assert_int_equal(koda_policy_freeze(policy, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	if (strstr(err.message, unfreezable[i].want) == NULL ||
	    strstr(err.message, "deny_read") == NULL)
		fail_msg("%s", err.message);
	/* unchanged, and can still be corrected */
	assert_false(koda_policy_frozen(policy));
	assert_string_equal(list_of(policy, KODA_ALLOW_WRITE)->v[0], in_dir("/link"));
	assert_string_equal(list_of(policy, KODA_DENY_READ)->v[0], in_dir(unfreezable[i].written));
	assert_int_equal(koda_policy_set_depth(policy, 4, NULL), 0);
}

static void
freeze_refuses_a_place_that_cannot_be_looked_at(void **state)
{
	struct koda_error err = { 0 };

	if (geteuid() == 0)
		skip_because("root can search every directory");
	assert_int_equal(chmod(in_dir("/real"), 0), 0);
	add(KODA_DENY_READ, in_dir("/real/x"));
	assert_int_equal(koda_policy_freeze(policy, &err), -1);
	assert_int_equal(err.code, KODA_IO);
	assert_int_equal(err.errnum, EACCES);
	assert_int_equal(chmod(in_dir("/real"), 0755), 0);
}

static void
what_a_rule_means_does_not_change_later(void **state)
{
	add(KODA_ALLOW_WRITE, in_dir("/link"));
	freeze(policy);
	assert_int_equal(unlink(in_dir("/link")), 0);
	assert_int_equal(symlink("/etc", in_dir("/link")), 0);
	freeze(policy); /* freezing twice is not an error, and does nothing */
	assert_string_equal(list_of(policy, KODA_ALLOW_WRITE)->v[0], in_dir("/real"));
}

static void
two_spellings_are_one_rule(void **state)
{
	add(KODA_ALLOW_WRITE, in_dir("/link"));
	add(KODA_ALLOW_WRITE, in_dir("/real"));
	add(KODA_ALLOW_WRITE, in_dir("/real/"));
	freeze(policy);
	assert_int_equal(list_of(policy, KODA_ALLOW_WRITE)->n, 1);
}

static void
presence_survives_freezing(void **state)
{
	assert_int_equal(koda_policy_add_none(policy, KODA_ALLOW_WRITE, NULL), 0);
	freeze(policy);
	assert_true(list_of(policy, KODA_ALLOW_WRITE)->present);
	assert_false(list_of(policy, KODA_DENY_READ)->present);
}

static void
frozen_bytes_and_digest(void **state)
{
	uint8_t digest[KODA_DIGEST_BYTES];
	cleanup_free uint8_t *bytes = NULL;
	const uint8_t *packed;
	size_t len, packed_len;

	assert_null(koda_policy_packed(policy, &len));
	assert_null(koda_policy_digest(policy));
	assert_null(koda_policy_ref(policy));
	add(KODA_ALLOW_WRITE, in_dir("/real"));
	freeze(policy);
	packed = koda_policy_packed(policy, &packed_len);
	assert_int_equal(policy_pack(koda_policy_get(policy), &bytes, &len, NULL), 0);
	assert_int_equal(len, packed_len);
	assert_memory_equal(packed, bytes, len);
	policy_digest(bytes, len, digest);
	assert_memory_equal(digest, koda_policy_digest(policy), sizeof(digest));
}

/* ---- rules ---- */

static void
a_frozen_policy_does_not_change(void **state)
{
	struct koda_error err;

#define REFUSED(call)                                                                              \
	do {                                                                                       \
		err_clear(&err);                                                                   \
		assert_int_equal(call, -1);                                                        \
		assert_int_equal(err.code, KODA_INVALID);                                          \
		assert_non_null(strstr(err.message, "frozen"));                                    \
	} while (0)
	freeze(policy);
	REFUSED(koda_policy_add(policy, KODA_ALLOW_WRITE, "/x", &err));
	REFUSED(koda_policy_add_none(policy, KODA_ALLOW_WRITE, &err));
	REFUSED(koda_policy_set_flag(policy, KODA_ANY_DOMAIN, true, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_FILE_BYTES, 1, &err));
	REFUSED(koda_policy_set_depth(policy, 1, &err));
	REFUSED(koda_policy_set_trust(policy, KODA_TRUST_AUTO, &err));
	REFUSED(koda_policy_set_mitm(policy, "/ca", &err));
	REFUSED(koda_policy_add_mitm_socket(policy, "a.test", "/s", &err));
#undef REFUSED
	assert_false(list_of(policy, KODA_ALLOW_WRITE)->present);
}

static void
a_refused_rule_leaves_the_policy_as_it_was(void **state)
{
	cleanup(policy_done) struct policy before;
	struct koda_error err;

	add(KODA_ALLOW_WRITE, "/a");
	assert_int_equal(policy_copy(&before, koda_policy_get(policy), NULL), 0);
#define REFUSED(call)                                                                              \
	do {                                                                                       \
		err_clear(&err);                                                                   \
		assert_int_equal(call, -1);                                                        \
		assert_int_equal(err.code, KODA_INVALID);                                          \
		assert_true(err.message[0] != '\0');                                               \
		assert_true(policy_equal(&before, koda_policy_get(policy)));                       \
	} while (0)
	REFUSED(koda_policy_add(policy, KODA_DENY_READ, "relative", &err));
	REFUSED(koda_policy_add(policy, KODA_DENY_READ, "", &err));
	REFUSED(koda_policy_add(policy, KODA_DENY_READ, NULL, &err));
	REFUSED(koda_policy_add(policy, KODA_ALLOWED_DOMAINS, "*", &err));
	REFUSED(koda_policy_add(policy, KODA_DENIED_DOMAINS, "a..b", &err));
	REFUSED(koda_policy_add(policy, KODA_DENIED_DOMAINS, NULL, &err));
	REFUSED(koda_policy_add(policy, KODA_DENIED_DOMAINS, "a.test any-sni", &err));
	REFUSED(koda_policy_add(policy, KODA_ALLOWED_DOMAINS, "a.test any-snj", &err));
	REFUSED(koda_policy_add(policy, KODA_ALLOWED_DOMAINS, "127.1", &err));
	REFUSED(koda_policy_add(policy, KODA_N_LISTS, "/x", &err));
	REFUSED(koda_policy_add(policy, (enum koda_list) - 1, "/x", &err));
	REFUSED(koda_policy_add_none(policy, KODA_N_LISTS, &err));
	REFUSED(koda_policy_set_flag(policy, KODA_N_FLAGS, true, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_N_LIMITS, 1, &err));
	/* A limit that cannot be enforced is refused, not lowered silently. */
	REFUSED(koda_policy_set_limit(policy, KODA_CPU_TIME_SECS, UINT64_MAX, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_CPU_TIME_SECS, 1000000001, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_WALL_TIME_SECS, UINT64_MAX, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_WALL_TIME_SECS, 301, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_OPEN_FDS, UINT64_MAX, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_OPEN_FDS, (1u << 20) + 1, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_OUTPUT_BYTES, UINT64_MAX, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_PROCESSES, UINT64_MAX, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_FILE_BYTES, UINT64_MAX, &err));
	REFUSED(koda_policy_set_limit(policy, KODA_MAX_FILE_BYTES, UINT64_C(1) << 63, &err));
	REFUSED(koda_policy_set_depth(policy, 256, &err));
	REFUSED(koda_policy_set_trust(policy, (enum koda_trust)0, &err));
	REFUSED(koda_policy_set_trust(policy, (enum koda_trust)4, &err));
	REFUSED(koda_policy_set_mitm(policy, "ca", &err));
	REFUSED(koda_policy_set_mitm(policy, NULL, &err));
	REFUSED(koda_policy_add_mitm_socket(policy, "*", "/s", &err));
	REFUSED(koda_policy_add_mitm_socket(policy, "a.test", "s", &err));
	REFUSED(koda_policy_add_mitm_socket(policy, "a.test any-sni", "/s", &err));
#undef REFUSED
	assert_int_equal(koda_policy_add(NULL, KODA_DENY_READ, "/x", NULL), -1);
	assert_int_equal(koda_policy_freeze(NULL, NULL), -1);
}

/* The highest value of each limit is kept as it is, also through composing; for memory every
 * number is a limit. */
static void
highest_limits(void **state)
{
	static const uint64_t highest[KODA_N_LIMITS] = {
		[KODA_CPU_TIME_SECS] = 1000000000,
		[KODA_WALL_TIME_SECS] = 300,
		[KODA_MAX_RSS_BYTES] = UINT64_MAX,
		[KODA_MAX_OPEN_FDS] = 1u << 20,
		[KODA_MAX_OUTPUT_BYTES] = 1u << 30,
		[KODA_MAX_PROCESSES] = 1u << 22,
		[KODA_MAX_FILE_BYTES] = INT64_MAX,
	};
	struct koda_policy *child = koda_policy_new(), *both;
	struct koda_error err;

	assert_non_null(child);
	for (unsigned i = 0; i < KODA_N_LIMITS; i++) {
		if (koda_policy_set_limit(policy, (enum koda_limit)i, highest[i], &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(koda_policy_get(policy)->limit[i].value, highest[i]);
	}
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	assert_int_equal(koda_policy_freeze(child, &err), 0);
	both = koda_policy_compose(policy, child, &err);
	assert_non_null(both);
	for (unsigned i = 0; i < KODA_N_LIMITS; i++)
		assert_int_equal(koda_policy_get(both)->limit[i].value, highest[i]);
	koda_policy_free(both);
	koda_policy_free(child);
}

static void
what_is_set_is_there(void **state)
{
	const struct policy *p = koda_policy_get(policy);

	assert_int_equal(koda_policy_set_flag(policy, KODA_ANY_DOMAIN, true, NULL), 0);
	assert_int_equal(koda_policy_set_limit(policy, KODA_MAX_RSS_BYTES, 0, NULL), 0);
	assert_int_equal(koda_policy_set_depth(policy, 255, NULL), 0);
	assert_int_equal(koda_policy_set_trust(policy, KODA_TRUST_FORBID, NULL), 0);
	assert_int_equal(koda_policy_set_mitm(policy, "/old.pem", NULL), 0);
	assert_int_equal(koda_policy_set_mitm(policy, "/ca.pem", NULL), 0);
	assert_int_equal(koda_policy_add_mitm_socket(policy, "A.Test.", "/run/s", NULL), 0);
	assert_int_equal(koda_policy_add_mitm_socket(policy, "a.test", "/run/t", NULL), -1);
	assert_true(p->flag[KODA_ANY_DOMAIN]);
	assert_true(p->limit[KODA_MAX_RSS_BYTES].set);
	assert_int_equal(p->limit[KODA_MAX_RSS_BYTES].value, 0);
	assert_int_equal(p->depth, 255);
	assert_int_equal(p->trust, KODA_TRUST_FORBID);
	assert_string_equal(p->ca_bundle, "/ca.pem");
	assert_int_equal(p->n_sockets, 1);
	assert_string_equal(p->sockets[0].domain, "a.test");
	assert_string_equal(p->sockets[0].path, "/run/s");
	freeze(policy);
}

static void
sockets_want_a_ca_bundle(void **state)
{
	struct koda_error err = { 0 };

	assert_int_equal(koda_policy_add_mitm_socket(policy, "a.test", "/s", NULL), 0);
	assert_int_equal(koda_policy_freeze(policy, &err), -1);
	assert_non_null(strstr(err.message, "ca_bundle"));
	assert_int_equal(koda_policy_set_mitm(policy, "/ca.pem", NULL), 0);
	freeze(policy);
}

static void
domains_are_normalised(void **state)
{
	add(KODA_ALLOWED_DOMAINS, "Example.TEST.:443");
	add(KODA_ALLOWED_DOMAINS, "example.test:443");
	assert_int_equal(list_of(policy, KODA_ALLOWED_DOMAINS)->n, 1);
	assert_string_equal(list_of(policy, KODA_ALLOWED_DOMAINS)->v[0], "example.test:443");
	add(KODA_ALLOWED_DOMAINS, "Example.TEST. Any-SNI");
	assert_string_equal(list_of(policy, KODA_ALLOWED_DOMAINS)->v[1], "example.test any-sni");
	freeze(policy);
}

/* ---- explain a host ---- */

static void
hosts_are_explained(void **state)
{
	struct koda_host_verdict v;
	struct koda_error err = { 0 };

	add(KODA_ALLOWED_DOMAINS, "a.test");
	add(KODA_ALLOWED_DOMAINS, "10.0.0.1:8080");
	add(KODA_DENIED_DOMAINS, "*.bad.test");
	freeze(policy);
#define EXPLAIN(mode, host) assert_int_equal(koda_explain_host(policy, mode, host, &v, &err), 0)
	EXPLAIN(KODA_AUTO, "A.Test.");
	assert_true(v.allowed && !v.asks);
	assert_string_equal(v.host, "a.test");
	assert_int_equal(v.port, 443);
	assert_string_equal(v.rule, "allowed_domains");
	assert_non_null(strstr(v.reason, "addresses"));
	EXPLAIN(KODA_AUTO, "10.0.0.1:8080");
	assert_true(v.allowed);
	/* Nothing is looked up, and an address needs no lookup. */
	assert_null(strstr(v.reason, "addresses"));
	EXPLAIN(KODA_SAFE, "b.test:22");
	assert_true(!v.allowed && v.asks);
	assert_non_null(strstr(v.reason, "the user is asked"));
	EXPLAIN(KODA_AUTO, "b.test:22");
	assert_true(!v.allowed && !v.asks);
	EXPLAIN(KODA_PLAN, "b.test");
	assert_true(!v.allowed && !v.asks);
	/* A denied host and an address are not asked about. */
	EXPLAIN(KODA_SAFE, "x.bad.test");
	assert_true(!v.allowed && !v.asks);
	assert_string_equal(v.rule, "denied_domains");
	EXPLAIN(KODA_SAFE, "[::1]");
	assert_true(!v.allowed && !v.asks);
#undef EXPLAIN
	v = (struct koda_host_verdict){ .rule = "untouched" };
	assert_int_equal(koda_explain_host(policy, KODA_AUTO, "u@a.test", &v, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
	assert_non_null(strstr(err.message, "'u@a.test' is not a valid host"));
	assert_string_equal(v.rule, "untouched");
	assert_int_equal(koda_explain_host(policy, KODA_AUTO, "", &v, &err), -1);
	assert_int_equal(koda_explain_host(policy, KODA_AUTO, NULL, &v, &err), -1);
	assert_int_equal(koda_explain_host(NULL, KODA_AUTO, "a.test", &v, &err), -1);
	assert_int_equal(koda_explain_host(policy, (enum koda_mode)0, "a.test", &v, &err), -1);
	assert_int_equal(err.code, KODA_INVALID);
}

static void
an_odd_path_is_bytes(void **state)
{
	add(KODA_DENY_READ, "/no\nsuch/\xff\xfe");
	freeze(policy);
	assert_string_equal(list_of(policy, KODA_DENY_READ)->v[0], "/no\nsuch/\xff\xfe");
}

/* ---- composing, sharing ---- */

static void
compose_wants_both_frozen_and_gives_frozen(void **state)
{
	struct koda_policy *child = koda_policy_new(), *both;
	struct koda_error err = { 0 };

	add(KODA_ALLOW_WRITE, in_dir("/real"));
	assert_null(koda_policy_compose(policy, child, &err));
	assert_int_equal(err.code, KODA_INVALID);
	freeze(policy);
	assert_null(koda_policy_compose(policy, child, NULL));
	assert_null(koda_policy_compose(child, policy, NULL));
	assert_null(koda_policy_compose(policy, NULL, NULL));
	freeze(child);
	both = koda_policy_compose(policy, child, &err);
	assert_non_null(both);
	assert_true(koda_policy_frozen(both));
	assert_true(koda_policy_equal(both, policy));
	assert_false(koda_policy_equal(both, child));
	assert_memory_equal(koda_policy_digest(both), koda_policy_digest(policy),
	    KODA_DIGEST_BYTES);
	koda_policy_free(both);
	koda_policy_free(child);
}

static void
equal_copes_with_null(void **state)
{
	assert_true(koda_policy_equal(NULL, NULL));
	assert_false(koda_policy_equal(policy, NULL));
	assert_false(koda_policy_equal(NULL, policy));
	koda_policy_free(NULL);
}

static void
an_owner_more_keeps_it(void **state)
{
	struct koda_policy *again;

	add(KODA_DENY_READ, "/x");
	freeze(policy);
	again = koda_policy_ref(policy);
	assert_ptr_equal(again, policy);
	koda_policy_free(policy);
	assert_string_equal(list_of(again, KODA_DENY_READ)->v[0],
	    "/x"); /* still there, or ASan reports it */
}

static void
for_agent_takes_more_rules_until_frozen(void **state)
{
	struct koda_error err = { 0 };
	struct koda_policy *p = koda_policy_for_agent(KODA_SAFE, in_dir("/link"), &err);

	assert_non_null(p);
	assert_int_equal(koda_policy_add(p, KODA_DENY_READ, in_dir("/real/no"), NULL), 0);
	freeze(p);
	assert_string_equal(list_of(p, KODA_ALLOW_WRITE)->v[0], in_dir("/real"));
	koda_policy_free(p);
	assert_null(koda_policy_for_agent(KODA_SAFE, "relative/and/missing", &err));
	assert_int_equal(err.code, KODA_INVALID);
	assert_null(koda_policy_for_agent((enum koda_mode)9, "/", NULL));
}

/* ---- showing ---- */

static void
print_is_one_field_a_line(void **state)
{
	cleanup_free char *text = NULL;

	add(KODA_DENY_READ, "/a");
	add(KODA_DENY_READ, "/b\n\x1b[2J");
	assert_int_equal(koda_policy_add_none(policy, KODA_ALLOW_WRITE, NULL), 0);
	text = koda_policy_print(policy);
	assert_non_null(text);
	assert_string_equal(text,
	    "fs.deny_read: /a, /b\\x0a\\x1b[2J\n"
	    "fs.allow_write: (nothing)\n"
	    "fs.allow_git_config: false\n"
	    "fs.mandatory_deny_search_depth: 3\n"
	    "fs.share_caches: false\n"
	    "net.any_domain: false\n"
	    "net.allow_local_binding: false\n"
	    "net.weaker_macos_isolation: false\n"
	    "trust: auto\n");
}

static int
stop_at_once(void *data, const char *section, const char *field, const char *value)
{
	return ++*(int *)data * 7;
}

static void
visit_passes_on_what_the_callback_says(void **state)
{
	int calls = 0;

	assert_int_equal(koda_policy_visit(policy, stop_at_once, &calls), 7);
	assert_int_equal(calls, 1);
}

int
main(void)
{
#define SINGLE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	static const struct CMUnitTest single[] = {
		SINGLE(freeze_refuses_a_place_that_cannot_be_looked_at),
		SINGLE(what_a_rule_means_does_not_change_later),
		SINGLE(two_spellings_are_one_rule),
		SINGLE(presence_survives_freezing),
		SINGLE(frozen_bytes_and_digest),
		SINGLE(a_frozen_policy_does_not_change),
		SINGLE(a_refused_rule_leaves_the_policy_as_it_was),
		SINGLE(highest_limits),
		SINGLE(what_is_set_is_there),
		SINGLE(sockets_want_a_ca_bundle),
		SINGLE(domains_are_normalised),
		SINGLE(hosts_are_explained),
		SINGLE(an_odd_path_is_bytes),
		SINGLE(compose_wants_both_frozen_and_gives_frozen),
		SINGLE(equal_copes_with_null),
		SINGLE(an_owner_more_keeps_it),
		SINGLE(for_agent_takes_more_rules_until_frozen),
		SINGLE(print_is_one_field_a_line),
		SINGLE(visit_passes_on_what_the_callback_says),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(freezes) + N_ELEMENTS(unfreezable)];
	size_t n = 0;

	OTHERS(single);
	for (uintptr_t i = 0; i < N_ELEMENTS(freezes); i++)
		tests[n++] = (struct CMUnitTest){ freezes[i].label, freeze_case, setup, teardown,
			(void *)i };
	for (uintptr_t i = 0; i < N_ELEMENTS(unfreezable); i++)
		tests[n++] = (struct CMUnitTest){ unfreezable[i].label, unfreezable_case, setup,
			teardown, (void *)i };
	return cmocka_run_group_tests_name("policy_api", tests, NULL, NULL);
}
