/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/command/command_calls.c, host/slot/slot.c, host/sandbox/sandbox.c, proxy/gate.c: a draft in
 * Safe. Nothing is asked before a command or a file operation, and nothing of them reaches the
 * project; each host is asked for before the first byte leaves, also one that the built-in list
 * names. The hosts are those of the small internet, where github.com is one more name.
 */
#include "tests/kit/hosting.h"

#include <sys/wait.h>

#include "proxy/reach/dial.h"
#include "shared/base/bytes.h"
#include "tests/kit/process.h"
#define put_file internet_put_file
#define answers  internet_answers
#include "tests/kit/small_internet.h"
#undef put_file
#undef answers

#define LISTED "github.com"

/* ---- questions ---- */

static struct {
	size_t commands, changes, hosts;
	char host[256]; /* the last one, with its port */
	enum koda_scope answer;
} asked;

static void
on_question(void *data, const struct koda_question *q)
{
	if (q->kind == KODA_OP_CONNECT) {
		asked.hosts++;
		snprintf(asked.host, sizeof(asked.host), "%s:%u", q->host, q->port);
		koda_approval_answer_scope(q->approval, asked.answer);
		return;
	}
	if (q->kind == KODA_OP_RUN)
		asked.commands++;
	else
		asked.changes++;
	koda_approval_answer(q->approval, false);
}

/* ---- sessions ---- */

/* denied: a host that the policy denies, or NULL. */
static void
begin(struct fixture *f, enum koda_scope answer, bool can_ask, const char *denied)
{
	struct koda_policy *p;
	struct koda_error err;

	memset(&asked, 0, sizeof(asked));
	asked.answer = answer;
	fixture_prepare(f, KODA_SAFE);
	p = koda_policy_for_agent(KODA_SAFE, f->root, &err);
	assert_non_null(p);
	if (denied != NULL)
		assert_int_equal(koda_policy_add(p, KODA_DENIED_DOMAINS, denied, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f->options.policy = p;
	f->options.commands = true;
	f->options.approve = can_ask ? on_question : NULL;
	put_text(f, "a", "old\n");
	fixture_open(f);
	koda_policy_free(p);
	all_counted();
	net->web = net->queries = 0;
}

static struct koda_slot *
open_draft(struct fixture *f)
{
	const struct koda_slot_options o = { .workspace = KODA_WORKSPACE_DRAFT };
	struct koda_error err;
	struct koda_slot *ret = koda_slot_open(f->ses, &o, &err);

	if (ret == NULL)
		fail_msg("draft: %s", err.message);
	return ret;
}

static void
run_in(struct koda_slot *in, const char *shell, bool approved, struct koda_command_result *ret)
{
	const struct koda_command_options o = { .shell = shell, .approved = approved };
	struct koda_error err;

	if (koda_run(in, &o, ret, &err) < 0)
		fail_msg("%s: %s", shell, err.message);
}

#define FETCH(host) KODA_TEST_CONNECT " " host " 80 </dev/null"

/* The number of connections that reached the server since begin(). */
static int
reached(void)
{
	all_counted();
	return net->web;
}

static void
fetches(struct koda_slot *in, bool approved)
{
	struct koda_command_result r;

	run_in(in, FETCH(LISTED), approved, &r);
	if (r.status != 0)
		fail_msg("status %d: %.*s", r.status, (int)r.err.head_len, r.err.head);
	assert_int_equal(r.n_violations, 0);
	koda_command_result_done(&r);
}

/* The command does not reach the host, nothing was looked up, and the refusal has this rule. */
static void
is_refused(struct koda_slot *in, const char *shell, const char *rule, const char *says)
{
	struct koda_command_result r;

	run_in(in, shell, false, &r);
	assert_int_equal(r.status, 1);
	assert_int_equal(r.n_violations, 1);
	assert_string_equal(r.violations[0].rule, rule);
	if (strstr(r.violations[0].detail, says) == NULL)
		fail_msg("'%s' does not say '%s'", r.violations[0].detail, says);
	koda_command_result_done(&r);
	assert_int_equal(reached(), 0);
	assert_int_equal(net->queries, 0);
}

/* ---- commands and file operations ---- */

static void
nothing_is_asked_before(void **state)
{
	struct koda_slot *in, *direct;
	const struct koda_command_options o = { .shell = "echo new >a" };
	struct koda_command_result r;
	struct koda_result result;
	struct koda_error err;
	struct fixture f;

	begin(&f, KODA_SCOPE_NO, true, NULL);
	in = open_draft(&f);
	run_in(in, "echo new >a; echo b >b; cat a", false, &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.out.head_len, 4);
	koda_command_result_done(&r);
	assert_int_equal(koda_fs_write(in, "c", "c\n", 2, &result, &err), 0);
	koda_result_done(&result);
	run_in(in, "cat b c", false, &r);
	assert_int_equal(r.out.head_len, 4);
	koda_command_result_done(&r);
	assert_int_equal(asked.commands + asked.changes + asked.hosts, 0);
	assert_string_equal(get_text(&f, "a"), "old\n");
	assert_false(exists(&f, "b"));
	assert_false(exists(&f, "c"));
	/* A slot of the project itself in the same session asks, and the answer counts. */
	direct = fixture_acquire(&f);
	assert_int_equal(koda_run(direct, &o, &r, &err), -1);
	assert_int_equal(err.code, KODA_NOT_APPROVED);
	assert_int_equal(asked.commands, 1);
	assert_int_equal(koda_fs_write(direct, "c", "c\n", 2, &result, &err), -1);
	assert_int_equal(err.code, KODA_NOT_APPROVED);
	assert_int_equal(asked.changes, 1);
	assert_string_equal(get_text(&f, "a"), "old\n");
	fixture_end(&f);
}

/* Without a user to ask, too: there is nothing to approve yet. */
static void
nobody_is_needed(void **state)
{
	struct koda_command_result r;
	struct fixture f;

	begin(&f, KODA_SCOPE_NO, false, NULL);
	run_in(open_draft(&f), "echo new >a", false, &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	assert_string_equal(get_text(&f, "a"), "old\n");
	fixture_end(&f);
}

/* The caches of the host that a policy shares with commands are part of the draft, too. */
static void
shared_caches_are_drafted(void **state)
{
	cleanup_free char *before = strdup(getenv("HOME") == NULL ? "" : getenv("HOME"));
	struct koda_command_result r;
	struct koda_policy *p;
	struct koda_error err;
	struct fixture f;
	char cache[PATH_MAX];

	memset(&asked, 0, sizeof(asked));
	fixture_prepare(&f, KODA_SAFE);
	snprintf(cache, sizeof(cache), "%s/home", f.dir);
	assert_int_equal(mkdir(cache, 0755), 0);
	assert_int_equal(setenv("HOME", cache, 1), 0);
	strcat(cache, "/.npm");
	assert_int_equal(mkdir(cache, 0755), 0);
	p = koda_policy_for_agent(KODA_SAFE, f.root, &err);
	assert_non_null(p);
	assert_int_equal(koda_policy_set_flag(p, KODA_SHARE_CACHES, true, &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	f.options.policy = p;
	f.options.commands = true;
	fixture_open(&f);
	koda_policy_free(p);
	run_in(open_draft(&f), "echo x >~/.npm/x && cat ~/.npm/x", false, &r);
	assert_int_equal(r.status, 0);
	koda_command_result_done(&r);
	strcat(cache, "/x");
	assert_int_equal(access(cache, F_OK), -1);
	koda_session_close(f.ses);
	assert_int_equal(setenv("HOME", before, 1), 0);
	process_shell("chmod -R u+rwX \"$1\"; rm -rf \"$1\"", f.dir, NULL, NULL);
}

/* ---- the network ---- */

/* Without the draft the built-in list is enough. */
static void
listed_host_of_a_direct_slot(void **state)
{
	struct fixture f;

	begin(&f, KODA_SCOPE_NO, true, NULL);
	fetches(fixture_acquire(&f), true);
	assert_int_equal(reached(), 1);
	assert_int_equal(asked.hosts, 0);
	fixture_end(&f);
}

static void
no_byte_before_the_answer(void **state)
{
	struct fixture f;

	begin(&f, KODA_SCOPE_NO, true, NULL);
	is_refused(open_draft(&f), FETCH(LISTED), "not_approved", "has not approved this one");
	assert_int_equal(asked.hosts, 1);
	assert_string_equal(asked.host, LISTED ":80");
	assert_int_equal(asked.commands, 0);
	fixture_end(&f);
}

static void
once_is_once(void **state)
{
	struct koda_slot *in;
	struct fixture f;

	begin(&f, KODA_SCOPE_ONCE, true, NULL);
	in = open_draft(&f);
	fetches(in, false);
	assert_int_equal(asked.hosts, 1);
	assert_int_equal(reached(), 1);
	fetches(in, false);
	assert_int_equal(asked.hosts, 2);
	assert_int_equal(reached(), 2);
	/* It is the slot that asks, not the command: an approved one has no other network. */
	fetches(in, true);
	assert_int_equal(asked.hosts, 3);
	fixture_end(&f);
}

/* An answer for the session is valid for later drafts, and for no other port. */
static void
for_the_session(void **state)
{
	struct koda_slot *in;
	struct koda_command_result r;
	struct fixture f;

	begin(&f, KODA_SCOPE_SESSION, true, NULL);
	in = open_draft(&f);
	fetches(in, false);
	fetches(in, false);
	koda_slot_release(in);
	in = open_draft(&f);
	fetches(in, false);
	assert_int_equal(asked.hosts, 1);
	assert_int_equal(reached(), 3);
	asked.answer = KODA_SCOPE_NO;
	run_in(in, KODA_TEST_CONNECT " " LISTED " 443 </dev/null", false, &r);
	assert_int_equal(r.status, 1);
	koda_command_result_done(&r);
	assert_int_equal(asked.hosts, 2);
	assert_string_equal(asked.host, LISTED ":443");
	fixture_end(&f);
}

static void
nobody_to_ask(void **state)
{
	struct fixture f;

	begin(&f, KODA_SCOPE_NO, false, NULL);
	is_refused(open_draft(&f), FETCH(LISTED), "nobody_to_ask", "cannot ask the user");
	fixture_end(&f);
}

static void
denied_host(void **state)
{
	struct fixture f;

	begin(&f, KODA_SCOPE_SESSION, true, LISTED);
	is_refused(open_draft(&f), FETCH(LISTED), "denied_domains", "a rule of the policy denies");
	assert_int_equal(asked.hosts, 0);
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_asked_before),
		cmocka_unit_test(nobody_is_needed),
		cmocka_unit_test(shared_caches_are_drafted),
		cmocka_unit_test(listed_host_of_a_direct_slot),
		cmocka_unit_test(no_byte_before_the_answer),
		cmocka_unit_test(once_is_once),
		cmocka_unit_test(for_the_session),
		cmocka_unit_test(nobody_to_ask),
		cmocka_unit_test(denied_host),
	};
	static const char *const foreign[] = { "http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY" };

	for (size_t i = 0; i < N_ELEMENTS(foreign); i++)
		unsetenv(foreign[i]);
	(void)proxy;
	(void)slot;
	enter();
	internet_put_file("/etc/resolv.conf", "nameserver " DNS "\n");
	return cmocka_run_group_tests_name("draft_safe", tests, NULL, NULL);
}
