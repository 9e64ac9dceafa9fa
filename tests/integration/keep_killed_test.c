/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/files/keep_now, host/draft/history_now, host/review/settle: the worker of a file operation, its
 * host, or both are killed at any step. The next session, or taking the entry back, leaves nothing under
 * a temporary name, removes nothing else, and the history says what has happened.
 */
#include "tests/kit/keeping.h"

enum dies {
	WORKER,
	HOST,
	BOTH,
	N_DIES,
};
static const char *const dies_name[] = { "worker", "host", "both" };

struct one {
	const struct scene *scene;
	int point;
	enum dies dies;
	char name[96];
};

/* ---- killing ---- */

/* The worker alone: the successor finishes or repeats the operation. */
static void
kill_worker(struct kept *k, const struct scene *s, int point)
{
	struct answer a;
	int pid;

	put_stopping_worker(&k->f, point);
	start(k);
	pid = koda_slot_pid(k->f.slot);
	start_call(k->f.slot, &s->op[0], &a);
	if (wait_for_state(pid, 'T')) {
		put_real_worker(&k->f);
		kill(pid, SIGKILL);
	}
	wait_answer(k->f.ses, &a);
	assert_code(&a.err, KODA_OK);
	assert_int_equal(a.times, 1);
}

static int workers; /* where the host in the other process tells the pid of each worker */

static void
tell_worker(void *data, enum koda_event_kind kind, const char *text)
{
	int pid;

	if (kind == KODA_EVENT_SPAWN && sscanf(text, "worker %d", &pid) == 1 &&
	    write(workers, &pid, sizeof(pid)) != sizeof(pid))
		_exit(3);
}

static void
be_host(struct kept *k, const struct scene *s)
{
	struct koda_error err;
	struct answer a;

	k->f.options.event = tell_worker;
	k->f.ses = koda_session_open(&k->f.options, &err);
	k->f.slot = k->f.ses == NULL ? NULL : koda_slot_acquire(k->f.ses, NULL, &err);
	if (k->f.slot == NULL || s == NULL)
		_exit(1);
	start_call(k->f.slot, &s->op[0], &a);
	koda_session_dispatch(k->f.ses, 0, &err);
	for (;;)
		pause();
}

static void
end_worker(int pid, int signo)
{
	for (uint64_t until = clock_ms() + PATIENCE_MS;
	     kill(pid, signo) == 0 && process_state(pid) != 'Z'; blink())
		assert_true(clock_ms() < until);
}

/* In another process. s NULL: it does no more than begin a session. Returns after both are gone. */
static void
kill_host(struct kept *k, const struct scene *s, int point, bool worker_too)
{
	int out[2], status, worker = 0;
	pid_t host;

	assert_int_equal(pipe(out), 0);
	workers = out[1];
	put_stopping_worker(&k->f, point);
	host = fork();
	if (host == 0)
		be_host(k, s);
	close(out[1]);
	assert_int_equal(read(out[0], &worker, sizeof(worker)), sizeof(worker));
	assert_true(wait_for_state(worker, 'T'));
	kill(host, SIGKILL);
	assert_int_equal(waitpid(host, &status, 0), host);
	/* Alone, it finishes what it does, and ends; it may stop again before. */
	end_worker(worker, worker_too ? SIGKILL : SIGCONT);
	close(out[0]);
	put_real_worker(&k->f);
}

/* ---- every step ---- */

static void
killed(void **state)
{
	const struct one *one = *state;
	cleanup_free char *before = NULL, *after = NULL;
	struct kept k;

	begin(&k, NULL);
	before = picture(&k.f);
	if (one->dies == WORKER) {
		kill_worker(&k, one->scene, one->point);
		assert_int_equal(count_temps(&k.f), 0);
		restart(&k);
	} else {
		kill_host(&k, one->scene, one->point, one->dies == BOTH);
		start(&k);
	}
	assert_int_equal(count_temps(&k.f), 0);
	after = picture(&k.f);
	look(&k);
	if (k.n_entries == 0) {
		assert_int_equal(one->dies, BOTH);
		assert_string_equal(after, before);
	} else {
		assert_string_equal(list(&k), one->scene->listed);
		turn(&k, false, KODA_TAKE_NONE);
		assert_all_applied(&k);
		assert_picture(&k.f, before);
		turn(&k, true, KODA_TAKE_NONE);
		assert_all_applied(&k);
		assert_picture(&k.f, after);
	}
	assert_int_equal(count_temps(&k.f), 0);
	end(&k);
}

/* ---- nothing else ---- */

static void
only_ours(void **state)
{
	struct kept k;

	begin(&k, NULL);
	put_text(&k.f, ".koda-ffffffffffffffff-1", "another's");
	put_text(&k.f, ".koda-note", "the user's");
	shell("mkdir \"$0\"/.koda; mkdir \"$0\"/.koda-x; echo y >\"$0\"/.koda-x/y", k.f.root);
	kill_host(&k, &scenes[0], 2, true);
	assert_true(count_temps(&k.f) > 3);
	start(&k);
	assert_int_equal(count_temps(&k.f), 3);
	assert_string_equal(get_text(&k.f, ".koda-ffffffffffffffff-1"), "another's");
	assert_string_equal(get_text(&k.f, ".koda-note"), "the user's");
	assert_string_equal(get_text(&k.f, ".koda-x/y"), "y\n");
	assert_string_equal(get_text(&k.f, "old"), "one two");
	end(&k);
}

/* A session that is in the middle of an operation is not disturbed by one that begins. */
static void
not_of_the_living(void **state)
{
	struct koda_session *other;
	struct koda_slot *slot;
	struct koda_error err;
	struct answer a;
	struct kept k;
	int pid;

	begin(&k, NULL);
	put_stopping_worker(&k.f, 2);
	start(&k);
	pid = koda_slot_pid(k.f.slot);
	start_call(k.f.slot, &scenes[0].op[0], &a);
	assert_true(wait_for_state(pid, 'T'));
	put_real_worker(&k.f);
	other = koda_session_open(&k.f.options, &err);
	assert_non_null(other);
	slot = koda_slot_acquire(other, NULL, &err);
	assert_non_null(slot);
	assert_int_equal(count_temps(&k.f), 1);
	koda_session_close(other);
	kill(pid, SIGCONT);
	wait_answer(k.f.ses, &a);
	assert_code(&a.err, KODA_OK);
	assert_false(a.recovered);
	assert_string_equal(get_text(&k.f, "old"), "new");
	end(&k);
}

/* A policy that forbids the change forbids to clean up after it, until there is one that does not. */
static void
left_to_who_may(void **state)
{
	struct koda_policy *policy;
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	kill_host(&k, &scenes[0], 2, true);
	policy = koda_policy_for_agent(KODA_AUTO, k.f.root, &err);
	assert_non_null(policy);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_WRITE_WITHIN_ALLOW, at(&k.f, "old"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	k.f.options.policy = policy;
	start(&k);
	assert_int_equal(count_temps(&k.f), 1);
	koda_session_close(k.f.ses);
	k.f.options.policy = NULL;
	start(&k);
	assert_int_equal(count_temps(&k.f), 0);
	end(&k);
	koda_policy_free(policy);
}

/* ---- more than once ---- */

/* The session that cleans up is killed, too, after it has decided. */
static void
killed_again(void **state)
{
	const struct scene *tree = NULL;
	cleanup_free char *before = NULL;
	struct kept k;

	for (size_t i = 0; i < N_ELEMENTS(scenes); i++)
		if (strcmp(scenes[i].label, "remove a tree") == 0)
			tree = &scenes[i];
	assert_non_null(tree);
	begin(&k, NULL);
	before = picture(&k.f);
	kill_host(&k, tree, 4, true);
	assert_int_equal(count_temps(&k.f), 1);
	kill_host(&k, NULL, 6, true);
	assert_int_equal(count_temps(&k.f), 1);
	start(&k);
	assert_int_equal(count_temps(&k.f), 0);
	assert_false(exists(&k.f, "dir"));
	look(&k);
	assert_string_equal(list(&k), tree->listed);
	turn(&k, false, KODA_TAKE_NONE);
	assert_all_applied(&k);
	assert_picture(&k.f, before);
	end(&k);
}

/* A worker that was taken over has written what it likes where the next host looks. */
static void
hostile_nows(void **state)
{
	struct kept k;

	begin(&k, NULL);
	put_text(&k.f, ".koda-note", "the user's");
	kill_host(&k, &scenes[0], 2, true);
	shell("cd \"$0\"/koda-sandbox/history/*/*/old; for n in *.now; do cp $n $n.save; done; "
	      "mkfifo 0000000000000000.now; ln -s /dev/zero 0000000000000001.now; "
	      "mkdir 0000000000000002.now; head -c 100000 /dev/urandom >0000000000000003.now; "
	      "head -c 100000 /dev/zero >0000000000000004.now; : >0000000000000005.now; "
	      "cp *.save 0000000000000006.now; rm *.save; ",
	    k.state);
	start(&k);
	assert_int_equal(count_temps(&k.f), 1);
	assert_string_equal(get_text(&k.f, ".koda-note"), "the user's");
	assert_string_equal(get_text(&k.f, "old"), "one two");
	/* Nothing is left to ask the next time: only this session has a mark. */
	shell("test $(ls \"$0\"/koda-sandbox/history/*/.live | wc -l) = 1", k.state);
	end(&k);
}

int
main(void)
{
	enum { SCENES = N_ELEMENTS(scenes), POINTS = 7 };
	static const struct CMUnitTest plain[] = {
		cmocka_unit_test(only_ours),
		cmocka_unit_test(not_of_the_living),
		cmocka_unit_test(left_to_who_may),
		cmocka_unit_test(killed_again),
		cmocka_unit_test(hostile_nows),
	};
	static const int points[POINTS] = { 1, 2, 3, 4, 5, 16, 17 };
	static struct CMUnitTest tests[N_ELEMENTS(plain) + N_DIES * POINTS * SCENES];
	static struct one ones[N_DIES * POINTS * SCENES];
	size_t n = 0, n_ones = 0;

	for (size_t i = 0; i < N_ELEMENTS(plain); i++)
		tests[n++] = plain[i];
	for (size_t i = 0; i < SCENES * POINTS * N_DIES; i++) {
		const struct scene *s = &scenes[i / N_DIES / POINTS];
		const int point = points[i / N_DIES % POINTS];
		const bool makes = s->op[0].kind == KODA_OP_WRITE || s->op[0].kind == KODA_OP_EDIT;
		const bool moves =
		    s->op[0].kind == KODA_OP_REMOVE && strstr(s->label, "directory") != NULL;
		struct one *one = &ones[n_ones];

		if (s->last == 0 || (point < 3 && !makes) || (point == 5 && s->last < 5) ||
		    (point == 17 && !moves && strcmp(s->label, "remove a tree") != 0))
			continue;
		n_ones++;
		*one = (struct one){ s, point, (enum dies)(i % N_DIES), "" };
		snprintf(one->name, sizeof(one->name), "%s, %s killed at %d", s->label,
		    dies_name[one->dies], point);
		tests[n++] = (struct CMUnitTest){ one->name, killed, NULL, NULL, one };
	}
	return _cmocka_run_group_tests("keep_killed", tests, n, NULL, NULL);
}
