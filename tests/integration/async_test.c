/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous calls: in any loop, mixed with waiting calls, and with callbacks that make calls. */
#include <ev.h>
#include <poll.h>

#include "tests/kit/hosting.h"

static void
mixed_with_waiting(void **state)
{
	struct answer a[20];
	struct koda_error err;
	struct fixture f;
	char name[20][8];

	fixture_start(&f, KODA_AUTO);
	for (int i = 0; i < 20; i++) {
		snprintf(name[i], sizeof(name[i]), "f%d", i);
		start_call(f.slot, &WRITE(name[i], "x"), &a[i]);
		/* Queued after all of the asynchronous calls. */
		assert_code((do_call(f.slot, &STAT(name[i]), &err), &err), KODA_OK);
		/* A callback never runs from inside another call. */
		assert_false(a[i].done);
	}
	for (int i = 0; i < 20; i++) {
		wait_answer(f.ses, &a[i]);
		assert_code(&a[i].err, KODA_OK);
		assert_int_equal(a[i].times, 1);
	}
	assert_int_equal(koda_session_dispatch(f.ses, 0, &err), 0);
	assert_int_equal(koda_session_dispatch(f.ses, -1, &err), 0);
	fixture_end(&f);
}

static void
in_a_poll_loop(void **state)
{
	struct koda_error err;
	struct pollfd pfd;
	struct answer a;
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	pfd = (struct pollfd){ .fd = koda_session_fd(f.ses), .events = POLLIN };
	for (int i = 0; i < 50; i++) {
		start_call(f.slot, &WRITE("f", "x"), &a);
		/* The death of a worker changes nothing: the next one gets the same descriptor
		 * numbers. */
		if (i % 10 == 5) {
			pid = koda_slot_pid(f.slot);
			kill(pid, SIGKILL);
		}
		while (!a.done) {
			assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
			assert_true(koda_session_dispatch(f.ses, 0, &err) >= 0);
		}
		assert_code(&a.err, KODA_OK);
	}
	/* The descriptor is not readable when there is nothing to do. */
	while (poll(&pfd, 1, 0) == 1)
		assert_int_equal(koda_session_dispatch(f.ses, 0, &err), 0);
	assert_int_equal(poll(&pfd, 1, 100), 0);
	fixture_end(&f);
}

static void
on_hang(struct ev_loop *loop, ev_timer *timer, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

struct in_loop {
	struct answer a;
	struct ev_loop *loop;
	ev_io io; /* watches the session */
	struct fixture *f;
	int left;
};

static void
next_in_loop(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct in_loop *in = data;
	struct koda_error why;

	on_answer(&in->a, result, err);
	assert_null(err);
	if (--in->left == 0)
		ev_break(in->loop, EVBREAK_ALL);
	else if (koda_call_async(in->f->slot, &WRITE("f", "x"), next_in_loop, in, &why) < 0)
		fail_msg("%s", why.message);
	if (in->left == 10)
		kill(koda_slot_pid(in->f->slot), SIGKILL);
}

static void
on_session(struct ev_loop *loop, ev_io *io, int revents)
{
	struct koda_error err;

	if (koda_session_dispatch(io->data, 0, &err) < 0)
		fail_msg("%s", err.message);
}

static void
in_the_callers_loop(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct koda_error err;
	struct fixture f;
	struct in_loop in = { .loop = loop, .f = &f, .left = 30 };
	ev_timer hang;

	assert_non_null(loop);
	fixture_prepare(&f, KODA_AUTO);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	ev_io_init(&in.io, on_session, koda_session_fd(f.ses), EV_READ);
	in.io.data = f.ses;
	ev_io_start(loop, &in.io);
	assert_int_equal(koda_call_async(f.slot, &WRITE("f", "x"), next_in_loop, &in, &err), 0);
	ev_timer_init(&hang, on_hang, PATIENCE_MS / 1000, 0);
	ev_timer_start(loop, &hang);
	ev_run(loop, 0);
	assert_int_equal(in.left, 0);
	ev_timer_stop(loop, &hang);
	ev_io_stop(loop, &in.io);
	fixture_end(&f);
	ev_loop_destroy(loop);
}

static void
limit_of_outstanding(void **state)
{
	static struct answer a[1024];
	struct koda_result result;
	struct koda_error err;
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGSTOP);
	for (int i = 0; i < 1024; i++)
		start_call(f.slot, &STAT("."), &a[i]);
	assert_int_equal(koda_call_async(f.slot, &STAT("."), on_answer, &a[0], &err), -1);
	assert_code(&err, KODA_INTERNAL);
	assert_int_equal(koda_call(f.slot, &STAT("."), &result, &err), -1);
	assert_code(&err, KODA_INTERNAL);
	assert_null(result.priv);
	kill(pid, SIGCONT);
	for (int i = 0; i < 1024; i++) {
		wait_answer(f.ses, &a[i]);
		assert_code(&a[i].err, KODA_OK);
		if (i > 0)
			assert_true(a[i].order > a[i - 1].order);
	}
	fixture_end(&f);
}

/* More queued calls than a socket holds: each is answered once, and in order. */
static void
more_than_a_socket_holds(void **state)
{
	static struct answer a[200];
	static char content[60000];
	struct koda_op op = { .kind = KODA_OP_WRITE, .path = "f", .data = content };
	struct fixture f;
	struct stat st;

	fixture_start(&f, KODA_AUTO);
	for (size_t i = 0; i < N_ELEMENTS(a); i++) {
		memset(content, 'a' + (int)(i % 26), sizeof(content));
		op.len = sizeof(content) - i;
		start_call(f.slot, &op, &a[i]);
	}
	for (size_t i = 0; i < N_ELEMENTS(a); i++) {
		wait_answer(f.ses, &a[i]);
		assert_code(&a[i].err, KODA_OK);
	}
	assert_int_equal(stat(at(&f, "f"), &st), 0);
	assert_int_equal(st.st_size, op.len);
	fixture_end(&f);
}

struct chain {
	struct fixture *f;
	int left, failed;
};

static void
go_on(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct chain *c = data;
	struct koda_error why;

	c->failed += err != NULL;
	if (--c->left > 0 && koda_call_async(c->f->slot, &STAT("."), go_on, c, &why) < 0)
		fail_msg("%s", why.message);
}

static void
callbacks_call(void **state)
{
	struct koda_error err;
	struct fixture f;
	struct chain c = { &f, 300, 0 };

	fixture_start(&f, KODA_AUTO);
	assert_int_equal(koda_call_async(f.slot, &STAT("."), go_on, &c, &err), 0);
	for (uint64_t end = clock_ms() + PATIENCE_MS; c.left > 0 && clock_ms() < end;)
		assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
	assert_int_equal(c.left, 0);
	assert_int_equal(c.failed, 0);
	fixture_end(&f);
}

/* A callback that retries on a failed slot for ever must not trap the caller in the library. */
static void
trying_for_ever(void **state)
{
	struct koda_error err;
	struct fixture f;
	struct chain c = { &f, 1 << 30, 0 };
	char path[PATH_MAX];

	fixture_start(&f, KODA_AUTO);
	snprintf(path, sizeof(path), "%s/koda-fs-worker", f.helpers);
	assert_int_equal(unlink(path), 0);
	kill(koda_slot_pid(f.slot), SIGKILL);
	assert_int_equal(koda_call_async(f.slot, &STAT("."), go_on, &c, &err), 0);
	for (int i = 0; i < 50; i++)
		assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
	assert_true(c.failed > 5);
	c.left = 1;
	fixture_end(&f);
}

static void
released_with_calls(void **state)
{
	struct answer a[10], b;
	struct koda_slot *other;
	struct koda_error err;
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	other = fixture_acquire(&f);
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGSTOP);
	for (int i = 0; i < 10; i++)
		start_call(f.slot, &WRITE("f", "x"), &a[i]);
	start_call(other, &STAT("."), &b);
	koda_slot_release(f.slot);
	for (int i = 0; i < 10; i++) {
		wait_answer(f.ses, &a[i]);
		assert_code(&a[i].err, KODA_WORKER);
		assert_int_equal(a[i].times, 1);
	}
	wait_answer(f.ses, &b);
	assert_code(&b.err, KODA_OK);
	assert_int_equal(koda_session_dispatch(f.ses, 0, &err), 0);
	/* The released slot's worker is not reused. */
	f.slot = fixture_acquire(&f);
	assert_int_not_equal(koda_slot_pid(f.slot), pid);
	fixture_end(&f);
}

static void
closed_with_calls(void **state)
{
	struct answer a[10];
	struct fixture f;
	int pid;

	fixture_start(&f, KODA_AUTO);
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGSTOP);
	for (int i = 0; i < 10; i++)
		start_call(f.slot, &STAT("."), &a[i]);
	fixture_end(&f);
	for (int i = 0; i < 10; i++) {
		assert_true(a[i].done);
		assert_code(&a[i].err, KODA_WORKER);
		assert_int_equal(a[i].times, 1);
	}
	assert_int_equal(process_state(pid), 0);
}

struct meddler {
	struct fixture *f;
	struct koda_slot *slot;
	bool close;
	int times, dispatched;
};

static void
meddle(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct meddler *m = data;
	struct koda_error why;

	if (m->times++ > 0)
		return;
	m->dispatched = koda_session_dispatch(m->f->ses, 100, &why);
	if (m->close)
		koda_session_close(m->f->ses);
	else
		koda_slot_release(m->slot);
	/* The result is still readable. */
	assert_non_null(result->path);
}

static void
callbacks_take_it_down(void **state)
{
	struct koda_error err;
	struct fixture f;
	struct meddler m = { &f, NULL, *state != NULL, 0, 0 };

	fixture_start(&f, KODA_AUTO);
	m.slot = f.slot;
	for (int i = 0; i < 5; i++)
		assert_int_equal(koda_call_async(f.slot, &STAT("."), meddle, &m, &err), 0);
	for (uint64_t end = clock_ms() + PATIENCE_MS; m.times == 0 && clock_ms() < end;)
		assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
	assert_int_equal(m.dispatched, -1);
	if (m.close) {
		assert_int_equal(m.times, 5);
		f.ses = NULL;
	} else {
		for (uint64_t end = clock_ms() + PATIENCE_MS; m.times < 5 && clock_ms() < end;)
			assert_true(koda_session_dispatch(f.ses, 100, &err) >= 0);
		assert_int_equal(m.times, 5);
		f.slot = fixture_acquire(&f);
	}
	fixture_end(&f);
}

/*
 * The event callback runs in the middle of what it reports: the library cannot be called from it.
 */
struct nosy {
	struct fixture f;
	int refused, told;
};

static void
call_from_event(void *data, enum koda_event_kind kind, const char *text)
{
	struct nosy *n = data;
	struct koda_result result;
	struct koda_error err;

	n->told++;
	if (n->f.slot == NULL)
		return;
	n->refused += koda_call(n->f.slot, &PING(), &result, &err) < 0;
	n->refused += koda_slot_acquire(n->f.ses, NULL, &err) == NULL;
}

static void
events_only_tell(void **state)
{
	struct nosy n = { 0 };
	struct koda_error err;

	fixture_prepare(&n.f, KODA_AUTO);
	n.f.options.event = call_from_event;
	n.f.options.data = &n;
	fixture_open(&n.f);
	n.f.slot = fixture_acquire(&n.f);
	assert_int_equal(n.told, 1);
	kill(koda_slot_pid(n.f.slot), SIGKILL);
	assert_code((do_call(n.f.slot, &PING(), &err), &err), KODA_OK);
	assert_int_equal(n.told, 3); /* a death and a start */
	assert_int_equal(n.refused, 4);
	fixture_end(&n.f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixed_with_waiting),
		cmocka_unit_test(in_a_poll_loop),
		cmocka_unit_test(in_the_callers_loop),
		cmocka_unit_test(limit_of_outstanding),
		cmocka_unit_test(more_than_a_socket_holds),
		cmocka_unit_test(callbacks_call),
		cmocka_unit_test(trying_for_ever),
		cmocka_unit_test(released_with_calls),
		cmocka_unit_test(closed_with_calls),
		{ "callbacks release", callbacks_take_it_down, NULL, NULL, NULL },
		{ "callbacks close", callbacks_take_it_down, NULL, NULL, (void *)1 },
		cmocka_unit_test(events_only_tell),
	};

	return cmocka_run_group_tests_name("async", tests, NULL, NULL);
}
