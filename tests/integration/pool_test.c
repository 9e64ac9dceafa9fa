/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker serves which slot: warm reuse, what is never shared, and the limits. */
#include <poll.h>

#include "tests/kit/hosting.h"

static struct koda_policy *
narrower(const struct fixture *f, const char *only)
{
	struct koda_policy *p = koda_policy_new();
	struct koda_error err;

	assert_non_null(p);
	if (only == NULL)
		assert_int_equal(koda_policy_add_none(p, KODA_ALLOW_WRITE, &err), 0);
	else
		assert_int_equal(koda_policy_add(p, KODA_ALLOW_WRITE, at(f, only), &err), 0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	return p;
}

static struct koda_slot *
acquire(struct fixture *f, const struct koda_policy *child)
{
	struct koda_error err;
	struct koda_slot *slot = koda_slot_acquire(f->ses, child, &err);

	if (slot == NULL)
		fail_msg("%s", err.message);
	return slot;
}

static void
warm(void **state)
{
	struct koda_enforcement enforced;
	struct koda_stats stats;
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	koda_slot_enforcement(f.slot, &enforced);
	assert_true(enforced.landlock_abi >= 3 && enforced.seccomp);
	pid = koda_slot_pid(f.slot);
	for (int i = 0; i < 20; i++) {
		koda_slot_release(f.slot);
		f.slot = acquire(&f, NULL);
		assert_int_equal(koda_slot_pid(f.slot), pid);
	}
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.spawns, 1);
	assert_int_equal(stats.respawns, 0);
	assert_int_equal(stats.slots, 1);
	assert_int_equal(stats.workers, 1);
	assert_int_equal(stats.calls, 21); /* a round trip before each slot is handed out */
	fixture_end(&f);
}

static void
policies_do_not_share(void **state)
{
	struct koda_policy *a, *b, *same;
	struct koda_slot *slot[3];
	struct koda_error err;
	struct fixture f;
	int pid[3];

	fixture_prepare(&f, KODA_AUTO);
	assert_int_equal(mkdir(at(&f, "a"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "b"), 0755), 0);
	fixture_open(&f);
	a = narrower(&f, "a");
	b = narrower(&f, "b");
	same = narrower(&f, "a");
	slot[0] = acquire(&f, NULL);
	slot[1] = acquire(&f, a);
	slot[2] = acquire(&f, b);
	for (int i = 0; i < 3; i++)
		pid[i] = koda_slot_pid(slot[i]);
	for (int i = 0; i < 3; i++)
		koda_slot_release(slot[i]);
	/* In another order, and with another policy object of the same rules. */
	slot[2] = acquire(&f, b);
	slot[1] = acquire(&f, same);
	slot[0] = acquire(&f, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(koda_slot_pid(slot[i]), pid[i]);
	/* While the workers are in use, another slot of the same policy gets another process. */
	f.slot = acquire(&f, a);
	assert_int_not_equal(koda_slot_pid(f.slot), pid[1]);
	assert_false(koda_policy_equal(koda_slot_policy(slot[1]), koda_slot_policy(slot[2])));
	assert_true(koda_policy_equal(koda_slot_policy(slot[1]), koda_slot_policy(f.slot)));

	assert_code((do_call(slot[0], &WRITE("x", "x"), &err), &err), KODA_OK);
	assert_code((do_call(slot[1], &WRITE("a/x", "x"), &err), &err), KODA_OK);
	assert_code((do_call(slot[1], &WRITE("b/x", "x"), &err), &err), KODA_POLICY_DENIED);
	assert_code((do_call(slot[2], &WRITE("a/y", "x"), &err), &err), KODA_POLICY_DENIED);
	assert_code((do_call(slot[2], &WRITE("b/x", "x"), &err), &err), KODA_OK);
	assert_false(exists(&f, "a/y"));
	koda_policy_free(a);
	koda_policy_free(b);
	koda_policy_free(same);
	/* The session's own policy is not affected by what its slots gave up. */
	assert_code((do_call(slot[0], &WRITE("y", "x"), &err), &err), KODA_OK);
	fixture_end(&f);
}

/* A child cannot give itself what the session does not have. */
static void
child_cannot_widen(void **state)
{
	struct koda_policy *wide = koda_policy_new(), *narrow = narrower(NULL, NULL);
	struct koda_error err;
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	assert_int_equal(koda_policy_add(wide, KODA_ALLOW_WRITE, "/", &err), 0);
	assert_null(koda_slot_acquire(f.ses, wide, &err));
	assert_code(&err, KODA_INVALID); /* not frozen */
	assert_int_equal(koda_policy_freeze(wide, &err), 0);
	f.slot = acquire(&f, wide);
	assert_code((do_call(f.slot, &WRITE("/etc/koda-test", "x"), &err), &err),
	    KODA_POLICY_DENIED);
	assert_code((do_call(f.slot, &WRITE("x", "x"), &err), &err), KODA_OK);
	f.slot = acquire(&f, narrow);
	assert_code((do_call(f.slot, &WRITE("y", "x"), &err), &err), KODA_POLICY_DENIED);
	assert_code((do_call(f.slot, &STAT("x"), &err), &err), KODA_OK);
	koda_policy_free(wide);
	koda_policy_free(narrow);
	fixture_end(&f);
}

static void
limits(void **state)
{
	struct koda_policy *none = narrower(NULL, NULL);
	struct koda_slot *slot[5];
	struct koda_stats stats;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	f.options.max_slots = 3;
	f.options.max_idle = 2;
	fixture_open(&f);
	for (int i = 0; i < 3; i++)
		slot[i] = acquire(&f, NULL);
	assert_null(koda_slot_acquire(f.ses, NULL, &err));
	assert_code(&err, KODA_INTERNAL);
	assert_non_null(strstr(err.message, "3 slots"));
	for (int i = 0; i < 3; i++)
		koda_slot_release(slot[i]);
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.slots, 0);
	assert_int_equal(stats.workers, 2);
	/* Idle workers do not get around the limit. */
	for (int i = 0; i < 3; i++)
		slot[i] = acquire(&f, none);
	assert_null(koda_slot_acquire(f.ses, NULL, &err));
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.slots, 3);
	assert_int_equal(stats.workers, 5);
	koda_slot_release(slot[0]);
	slot[0] = acquire(&f, NULL);
	koda_policy_free(none);
	fixture_end(&f);
}

static void
counters(void **state)
{
	struct koda_stats stats;
	struct koda_error err;
	struct fixture f;

	fixture_start(&f, KODA_AUTO);
	assert_code((do_call(f.slot, &WRITE("x", "x"), &err), &err), KODA_OK);
	assert_code((do_call(f.slot, &WRITE("/etc/koda-test", "x"), &err), &err),
	    KODA_POLICY_DENIED);
	assert_code((do_call(f.slot, &STAT("nothing"), &err), &err), KODA_IO);
	assert_code((do_call(f.slot, &STAT(""), &err), &err), KODA_INVALID);
	kill(koda_slot_pid(f.slot), SIGKILL);
	assert_code((do_call(f.slot, &PING(), &err), &err), KODA_OK);
	koda_session_stats(f.ses, &stats);
	/* The first is the round trip of koda_slot_acquire(); the invalid call was never sent. */
	assert_int_equal(stats.calls, 5);
	assert_int_equal(stats.refusals, 1);
	assert_int_equal(stats.spawns, 2);
	assert_int_equal(stats.respawns, 1);
	assert_int_equal(stats.recovered, 0);
	assert_int_equal(stats.slots, 1);
	fixture_end(&f);
}

/* Sessions do not know about each other. */
static void
two_sessions(void **state)
{
	struct koda_error err;
	struct fixture f, g;

	fixture_start(&f, KODA_AUTO);
	fixture_start(&g, KODA_AUTO);
	assert_int_not_equal(koda_slot_pid(f.slot), koda_slot_pid(g.slot));
	assert_code((do_call(f.slot, &WRITE(at(&g, "x"), "x"), &err), &err), KODA_POLICY_DENIED);
	fixture_end(&f);
	assert_code((do_call(g.slot, &WRITE("x", "x"), &err), &err), KODA_OK);
	fixture_end(&g);
}

/* ---- the wait callback ---- */

struct waiter {
	struct koda_session *ses;
	bool gives_up, closes;
	unsigned waited;
};

static int
on_wait(void *data, struct pollfd *fds, size_t n, int timeout_ms)
{
	struct waiter *w = data;
	struct koda_error err;

	w->waited++;
	/* The session is in the middle of something. */
	assert_int_equal(koda_session_dispatch(w->ses, 0, &err), -1);
	assert_code(&err, KODA_INTERNAL);
	assert_null(koda_slot_acquire(w->ses, NULL, &err));
	assert_code(&err, KODA_INTERNAL);
	if (w->closes)
		koda_session_close(w->ses);
	return w->gives_up ? -1 : poll(fds, n, timeout_ms);
}

static void
waits(void **state)
{
	struct koda_session_options o;
	struct waiter w = { .gives_up = true };
	struct koda_slot *slot;
	struct koda_error err;
	struct koda_result result;
	struct fixture f;
	unsigned waited;

	fixture_prepare(&f, KODA_AUTO);
	o = f.options;
	o.wait = on_wait;
	o.data = &w;
	w.ses = koda_session_open(&o, &err);
	assert_non_null(w.ses);
	assert_null(koda_slot_acquire(w.ses, NULL, &err));
	assert_code(&err, KODA_TIMEOUT);
	assert_int_equal(w.waited, 1);
	/* The session is as usable as before. */
	w.gives_up = false;
	slot = koda_slot_acquire(w.ses, NULL, &err);
	assert_non_null(slot);
	assert_true(w.waited > 1);
	/* Only while a slot is acquired. */
	waited = w.waited;
	assert_int_equal(koda_call(slot, &(struct koda_op){ .kind = KODA_OP_PING }, &result, &err),
	    0);
	koda_result_done(&result);
	assert_int_equal(w.waited, waited);
	w.closes = true;
	assert_null(koda_slot_acquire(w.ses, NULL, &err));
	fixture_end(&f);
}

static void
close_at_spawn(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind == KODA_EVENT_SPAWN)
		koda_session_close(*(struct koda_session **)data);
}

static void
closed_in_an_event(void **state)
{
	struct koda_session_options o;
	struct koda_session *ses;
	struct koda_error err = { .code = KODA_OK };
	struct fixture f;

	fixture_prepare(&f, KODA_AUTO);
	o = f.options;
	o.event = close_at_spawn;
	o.data = &ses;
	ses = koda_session_open(&o, &err);
	assert_non_null(ses);
	assert_null(koda_slot_acquire(ses, NULL, &err));
	assert_code(&err, KODA_INTERNAL);
	assert_non_null(strstr(err.message, "closed"));
	fixture_end(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warm),
		cmocka_unit_test(policies_do_not_share),
		cmocka_unit_test(child_cannot_widen),
		cmocka_unit_test(limits),
		cmocka_unit_test(counters),
		cmocka_unit_test(two_sessions),
		cmocka_unit_test(waits),
		cmocka_unit_test(closed_in_an_event),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
