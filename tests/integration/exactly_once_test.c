/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactly once. A worker that stops itself at a known step is killed there; its successor is an
 * ordinary one. The action has then happened once, and the caller was told the truth, whether it
 * waited or used a callback.
 */
#include <dirent.h>
#include <pthread.h>

#include "shared/wire/protocol.h"

#include "tests/kit/hosting.h"

enum action {
	WRITE_OLD,
	WRITE_NEW,
	WRITE_DEEP,
	EDIT,
	MKDIR,
	MKDIR_DEEP,
	REMOVE_FILE,
	REMOVE_DIR,
	REMOVE_TREE,
	RENAME
};

static const char *const action_name[] = { "replace", "create", "create with missing directories",
	"edit", "mkdir", "mkdir with parents", "remove a file", "remove a directory",
	"remove a tree", "rename" };

/*
 * Where each action can be stopped, and from which point on it has happened. Points: 1 temporary
 * file made, 2 written, 3 prepared, 4 acted, 5 committed.
 */
static const struct {
	enum action action;
	int first, last, happened;
} spans[] = {
	{ WRITE_OLD, 1, 4, 4 },
	{ WRITE_NEW, 1, 4, 4 },
	{ WRITE_DEEP, 1, 4, 4 },
	{ EDIT, 1, 4, 4 },
	{ MKDIR, 3, 4, 4 },
	{ MKDIR_DEEP, 3, 4, 4 },
	{ REMOVE_FILE, 3, 5, 4 },
	{ REMOVE_DIR, 3, 5, 4 },
	{ REMOVE_TREE, 3, 5, 4 },
	{ RENAME, 3, 4, 4 },
};

/* The kernel's clock for files ticks at least every 10 ms. */
#define CLOCK_TICK_US 20000

struct one {
	enum action action;
	int point;
	bool happened; /* at that point */
	bool sync;     /* koda_call() instead of koda_call_async() */
	bool twice;    /* its successor is stopped and killed in Recover */
	char name[96];
};

static void
arrange(const struct fixture *f, enum action action)
{
	put_text(f, "old", "one two");
	put_text(f, "bystander", "still here");
	if (action == REMOVE_DIR || action == REMOVE_TREE)
		assert_int_equal(mkdir(at(f, "dir"), 0755), 0);
	if (action == REMOVE_TREE) {
		assert_int_equal(mkdir(at(f, "dir/sub"), 0755), 0);
		put_text(f, "dir/a", "a");
		put_text(f, "dir/sub/b", "b");
	}
}

static struct koda_op
op_for(enum action action)
{
	/* Applying it twice would show: 'two' becomes 'two two'. */
	static const struct koda_edit edit = { "two", 3, "two two!", 8, false };

	switch (action) {
	case WRITE_OLD:
		return WRITE("old", "replaced", .flags = KODA_DIGEST);
	case WRITE_NEW:
		return WRITE("new", "made", .if_absent = true);
	case WRITE_DEEP:
		return WRITE("x/y/z", "deep");
	case EDIT:
		return (struct koda_op){ .kind = KODA_OP_EDIT,
			.path = "old",
			.edits = &edit,
			.n_edits = 1 };
	case MKDIR:
		return (struct koda_op){ .kind = KODA_OP_MKDIR, .path = "made" };
	case MKDIR_DEEP:
		return (struct koda_op){ .kind = KODA_OP_MKDIR,
			.path = "p/q/r",
			.flags = KODA_PARENTS };
	case REMOVE_FILE:
		return (struct koda_op){ .kind = KODA_OP_REMOVE, .path = "old" };
	case REMOVE_DIR:
		return (struct koda_op){ .kind = KODA_OP_REMOVE, .path = "dir" };
	case REMOVE_TREE:
		return (struct koda_op){ .kind = KODA_OP_REMOVE,
			.path = "dir",
			.flags = KODA_RECURSIVE };
	case RENAME:
		break;
	}
	return (struct koda_op){ .kind = KODA_OP_RENAME, .path = "old", .to = "moved" };
}

static void
check_done(const struct fixture *f, enum action action)
{
	struct stat st;

	switch (action) {
	case WRITE_OLD:
		assert_string_equal(get_text(f, "old"), "replaced");
		break;
	case WRITE_NEW:
		assert_string_equal(get_text(f, "new"), "made");
		break;
	case WRITE_DEEP:
		assert_string_equal(get_text(f, "x/y/z"), "deep");
		break;
	case EDIT:
		assert_string_equal(get_text(f, "old"), "one two two!");
		break;
	case MKDIR:
	case MKDIR_DEEP:
		assert_int_equal(stat(at(f, action == MKDIR ? "made" : "p/q/r"), &st), 0);
		assert_true(S_ISDIR(st.st_mode));
		break;
	case REMOVE_FILE:
		assert_false(exists(f, "old"));
		break;
	case REMOVE_DIR:
	case REMOVE_TREE:
		assert_false(exists(f, "dir"));
		break;
	case RENAME:
		assert_false(exists(f, "old"));
		assert_string_equal(get_text(f, "moved"), "one two");
		break;
	}
	assert_string_equal(get_text(f, "bystander"), "still here");
	assert_int_equal(count_temps(f), 0);
}

/*
 * The thread that installs the real worker as the successor and kills a worker once it has stopped
 * itself.
 */
struct killer {
	const struct fixture *f;
	int pid;
	bool stopped;
};

static void *
kill_when_stopped(void *data)
{
	struct killer *k = data;

	k->stopped = wait_for_state(k->pid, 'T');
	put_real_worker(k->f);
	kill(k->pid, SIGKILL);
	return NULL;
}

static void
run_sync(struct fixture *f, const struct koda_op *op, struct answer *a)
{
	struct killer k = { f, koda_slot_pid(f->slot), false };
	struct koda_result result;
	struct koda_error err = { 0 };
	pthread_t thread;

	memset(a, 0, sizeof(*a));
	assert_int_equal(pthread_create(&thread, NULL, kill_when_stopped, &k), 0);
	if (koda_call(f->slot, op, &result, &err) == 0)
		on_answer(a, &result, NULL);
	else
		on_answer(a, NULL, &err);
	koda_result_done(&result);
	pthread_join(thread, NULL);
	assert_true(k.stopped);
}

static void
run_async(struct fixture *f, const struct koda_op *op, bool twice, struct answer *a)
{
	struct koda_error err;
	int pid = koda_slot_pid(f->slot), next = -1;

	start_call(f->slot, op, a);
	assert_true(wait_for_state(pid, 'T'));
	if (twice)
		put_stopping_worker(f, 6);
	else
		put_real_worker(f);
	kill(pid, SIGKILL);
	if (twice) {
		for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end;) {
			assert_true(koda_session_dispatch(f->ses, 10, &err) >= 0);
			next = koda_slot_pid(f->slot);
			if (next > 0 && next != pid && process_state(next) == 'T')
				break;
		}
		assert_int_equal(process_state(next), 'T');
		assert_false(a->done);
		put_real_worker(f);
		kill(next, SIGKILL);
	}
	wait_answer(f->ses, a);
}

static void
killed_at(void **state)
{
	const struct one *one = *state;
	const struct koda_op op = op_for(one->action);
	struct koda_stats stats;
	struct koda_error err;
	struct fixture f;
	struct answer a;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, one->point);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	arrange(&f, one->action);
	if (one->sync)
		run_sync(&f, &op, &a);
	else
		run_async(&f, &op, one->twice, &a);
	assert_code(&a.err, KODA_OK);
	assert_int_equal(a.times, 1);
	check_done(&f, one->action);
	assert_int_equal(a.recovered, one->happened);
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.recovered, 1);
	assert_int_equal(stats.respawns, one->twice ? 2 : 1);
	/* The slot works as before. */
	assert_code((do_call(f.slot, &WRITE("after", "x"), &err), &err), KODA_OK);
	fixture_end(&f);
}

/* Another process replaces the file that the worker has just put in place. */
static void
nobody_can_tell(void **state)
{
	struct koda_error err;
	struct fixture f;
	struct answer a;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 4);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "old", "one two");
	pid = koda_slot_pid(f.slot);
	start_call(f.slot, &WRITE("old", "ours", .flags = KODA_DIGEST), &a);
	assert_true(wait_for_state(pid, 'T'));
	assert_string_equal(get_text(&f, "old"), "ours");
	put_text(&f, "theirs", "theirs");
	assert_int_equal(rename(at(&f, "theirs"), at(&f, "old")), 0);
	put_real_worker(&f);
	kill(pid, SIGKILL);
	wait_answer(f.ses, &a);
	assert_code(&a.err, KODA_UNKNOWN);
	assert_string_equal(a.err.path, at(&f, "old"));
	/* The message contains both digests, of 64 hexadecimal digits each. */
	assert_non_null(strstr(a.err.message, "has digest "));
	assert_true(strspn(strstr(a.err.message, "has digest ") + 11, "0123456789abcdef") == 64);
	assert_true(strspn(strstr(a.err.message, "would be ") + 9, "0123456789abcdef") == 64);
	assert_string_equal(get_text(&f, "old"), "theirs");
	assert_code((do_call(f.slot, &STAT("old"), &err), &err), KODA_OK);
	fixture_end(&f);
}

/* Another process replaces the file at the new name: the answer is about that name. */
static void
rename_nobody_can_tell(void **state)
{
	const struct koda_op op = { .kind = KODA_OP_RENAME, .path = "old", .to = "moved" };
	struct fixture f;
	struct answer a;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 4);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "old", "one two");
	pid = koda_slot_pid(f.slot);
	start_call(f.slot, &op, &a);
	assert_true(wait_for_state(pid, 'T'));
	put_text(&f, "theirs", "theirs");
	assert_int_equal(rename(at(&f, "theirs"), at(&f, "moved")), 0);
	put_real_worker(&f);
	kill(pid, SIGKILL);
	wait_answer(f.ses, &a);
	assert_code(&a.err, KODA_UNKNOWN);
	assert_string_equal(a.err.path, at(&f, "moved"));
	assert_non_null(strstr(a.err.message, at(&f, "moved")));
	assert_null(strstr(a.err.message, at(&f, "old")));
	assert_non_null(strstr(a.err.message, "has digest "));
	assert_true(strspn(strstr(a.err.message, "has digest ") + 11, "0123456789abcdef") == 64);
	fixture_end(&f);
}

/* Another process moves the file back before the successor looks: it is not moved a second time. */
static void
rename_moved_back(void **state)
{
	const struct koda_op op = { .kind = KODA_OP_RENAME, .path = "old", .to = "moved" };
	struct fixture f;
	struct answer a;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 4);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "old", "one two");
	pid = koda_slot_pid(f.slot);
	usleep(CLOCK_TICK_US);
	start_call(f.slot, &op, &a);
	assert_true(wait_for_state(pid, 'T'));
	assert_int_equal(rename(at(&f, "moved"), at(&f, "old")), 0);
	put_real_worker(&f);
	kill(pid, SIGKILL);
	wait_answer(f.ses, &a);
	assert_code(&a.err, KODA_UNKNOWN);
	assert_string_equal(get_text(&f, "old"), "one two");
	assert_false(exists(&f, "moved"));
	fixture_end(&f);
}

/* The name of the temporary file in the root. */
static void
find_temp(const struct fixture *f, char *ret, size_t size)
{
	cleanup(closedir_at) DIR *d = opendir(f->root);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0) {
			snprintf(ret, size, "%s", e->d_name);
			return;
		}
	}
	fail_msg("there is no temporary file");
}

/*
 * Remove moves a file to a temporary name first. If another process then puts a different file
 * there, and takes the old name too, nothing can be moved back: the name has lost its file, so the
 * caller must not be told that nothing happened.
 */
static void
remove_cannot_undo(void **state)
{
	char temp[NAME_MAX + 1];
	struct fixture f;
	struct answer a;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 4);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "old", "one two");
	pid = koda_slot_pid(f.slot);
	start_call(f.slot, &(struct koda_op){ .kind = KODA_OP_REMOVE, .path = "old" }, &a);
	assert_true(wait_for_state(pid, 'T'));
	find_temp(&f, temp, sizeof(temp));
	put_text(&f, "theirs", "theirs");
	assert_int_equal(rename(at(&f, "theirs"), at(&f, temp)), 0);
	put_text(&f, "old", "in the way");
	kill(pid, SIGCONT);
	wait_answer(f.ses, &a);
	assert_code(&a.err, KODA_UNKNOWN);
	/* The message says where the file is now. */
	assert_non_null(strstr(a.err.message, temp));
	assert_string_equal(get_text(&f, temp), "theirs");
	assert_string_equal(get_text(&f, "old"), "in the way");
	fixture_end(&f);
}

/* Calls queued behind the one that died keep their order. */
static void
order_survives(void **state)
{
	struct koda_edit edit[4];
	char text[4][2][8];
	struct answer a[5];
	struct koda_op op;
	struct fixture f;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 2 + (int)(uintptr_t)*state);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "chain", "0");
	pid = koda_slot_pid(f.slot);
	for (int i = 0; i < 4; i++) {
		snprintf(text[i][0], sizeof(text[i][0]), "%d", i);
		snprintf(text[i][1], sizeof(text[i][1]), "%d", i + 1);
		edit[i] = (struct koda_edit){ text[i][0], 1, text[i][1], 1, false };
		op = (struct koda_op){ .kind = KODA_OP_EDIT,
			.path = "chain",
			.edits = &edit[i],
			.n_edits = 1 };
		start_call(f.slot, &op, &a[i]);
	}
	start_call(f.slot, &(struct koda_op){ .kind = KODA_OP_READ, .path = "chain" }, &a[4]);
	assert_true(wait_for_state(pid, 'T'));
	put_real_worker(&f);
	kill(pid, SIGKILL);
	for (int i = 0; i < 5; i++)
		wait_answer(f.ses, &a[i]);
	for (int i = 0; i < 4; i++) {
		assert_code(&a[i].err, KODA_OK);
		assert_int_equal(a[i].times, 1);
		if (i > 0)
			assert_true(a[i].order > a[i - 1].order);
	}
	assert_string_equal(get_text(&f, "chain"), "4");
	assert_int_equal(count_temps(&f), 0);
	fixture_end(&f);
}

/* The content of a large write goes by descriptor: the second worker gets it too. */
static void
content_by_descriptor(void **state)
{
	static char big[300000];
	struct answer a;
	struct fixture f;
	struct stat st;
	int pid;

	memset(big, 'x', sizeof(big));
	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 3);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	pid = koda_slot_pid(f.slot);
	start_call(f.slot,
	    &(struct koda_op){ .kind = KODA_OP_WRITE,
		.path = "big",
		.data = big,
		.len = sizeof(big) },
	    &a);
	assert_true(wait_for_state(pid, 'T'));
	put_real_worker(&f);
	kill(pid, SIGKILL);
	wait_answer(f.ses, &a);
	assert_code(&a.err, KODA_OK);
	assert_false(a.recovered);
	assert_int_equal(stat(at(&f, "big"), &st), 0);
	assert_int_equal(st.st_size, sizeof(big));
	assert_int_equal(count_temps(&f), 0);
	fixture_end(&f);
}

/*
 * The host gives up a request that kills every worker that takes it, and nothing of the request is
 * left.
 */
static void
two_deaths(void **state)
{
	struct koda_error err;
	struct fixture f;
	struct answer a;
	int pid;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, 3);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "old", "one two");
	start_call(f.slot, &WRITE("old", "never"), &a);
	pid = koda_slot_pid(f.slot);
	assert_true(wait_for_state(pid, 'T'));
	kill(pid, SIGKILL);
	/* The next worker stops in the same way. */
	for (uint64_t end = clock_ms() + PATIENCE_MS; !a.done && clock_ms() < end;) {
		assert_true(koda_session_dispatch(f.ses, 10, &err) >= 0);
		if (koda_slot_pid(f.slot) > 0 && process_state(koda_slot_pid(f.slot)) == 'T') {
			put_real_worker(&f);
			kill(koda_slot_pid(f.slot), SIGKILL);
		}
	}
	assert_true(a.done);
	assert_code(&a.err, KODA_WORKER);
	assert_non_null(strstr(a.err.message, "during this request; nothing was changed"));
	assert_string_equal(get_text(&f, "old"), "one two");
	assert_int_equal(count_temps(&f), 0);
	fixture_end(&f);
}

/*
 * Only the host kills the worker, when the call's time is up. If the action had happened by then,
 * it is reported as done, late; otherwise it is undone, and the caller gets that report.
 */
static void
hangs_at(void **state)
{
	const struct one *one = *state;
	struct koda_op op = op_for(one->action);
	struct koda_error err;
	struct fixture f;
	struct answer a;
	uint64_t began;

	fixture_prepare(&f, KODA_AUTO);
	put_stopping_worker(&f, one->point);
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	arrange(&f, one->action);
	if (one->twice)
		put_stopping_worker(&f, 6);
	else
		put_real_worker(&f);
	op.timeout_ms = 300;
	began = clock_ms();
	if (one->sync) {
		struct koda_result result;

		memset(&a, 0, sizeof(a));
		if (koda_call(f.slot, &op, &result, &err) == 0)
			on_answer(&a, &result, NULL);
		else
			on_answer(&a, NULL, &err);
		koda_result_done(&result);
	} else {
		start_call(f.slot, &op, &a);
		wait_answer(f.ses, &a);
	}
	/*
	 * The timeout plus the time to find out what happened; if the successor hangs too, seven
	 * seconds more.
	 */
	assert_true(clock_ms() - began >= 290);
	assert_true(clock_ms() - began < (one->twice ? 9500 : 2500));
	put_real_worker(&f);
	if (one->happened) {
		assert_code(&a.err, KODA_OK);
		assert_true(a.recovered);
		check_done(&f, one->action);
	} else {
		assert_code(&a.err, KODA_TIMEOUT);
		assert_non_null(strstr(a.err.message, "not finished within"));
		if (one->action == REMOVE_TREE)
			assert_true(exists(&f, "dir/a") && exists(&f, "dir/sub/b"));
		else
			assert_string_equal(get_text(&f, "old"), "one two");
		assert_int_equal(count_temps(&f), 0);
	}
	assert_code((do_call(f.slot, &WRITE("after", "x"), &err), &err), KODA_OK);
	fixture_end(&f);
}

static struct one hangs[] = {
	{ WRITE_OLD, 1, false, false, false, "replace, hangs at 1" },
	{ WRITE_OLD, 2, false, true, false, "replace, hangs at 2, waiting" },
	{ WRITE_OLD, 3, false, false, false, "replace, hangs at 3" },
	{ WRITE_OLD, 4, true, true, false, "replace, hangs at 4, waiting" },
	{ WRITE_OLD, 4, true, false, true, "replace, hangs at 4, and its successor too" },
	{ EDIT, 3, false, false, false, "edit, hangs at 3" },
	{ EDIT, 4, true, false, false, "edit, hangs at 4" },
	{ REMOVE_TREE, 3, false, false, false, "remove a tree, hangs at 3" },
	{ REMOVE_TREE, 4, true, false, false, "remove a tree, hangs at 4" },
	{ REMOVE_TREE, 5, true, false, false, "remove a tree, hangs at 5" },
	{ RENAME, 3, false, false, false, "rename, hangs at 3" },
	{ RENAME, 4, true, false, false, "rename, hangs at 4" },
};

int
main(void)
{
	static struct one ones[128];
	struct CMUnitTest tests[N_ELEMENTS(ones) + N_ELEMENTS(hangs) + 10];
	size_t n = 0, k;

	for (size_t i = 0; i < N_ELEMENTS(spans); i++) {
		for (int point = spans[i].first; point <= spans[i].last; point++) {
			for (int how = 0; how < 3; how++) {
				struct one *one = &ones[n];

				*one = (struct one){ spans[i].action, point,
					point >= spans[i].happened, how == 1, how == 2, "" };
				snprintf(one->name, sizeof(one->name), "%s, killed at %d%s",
				    action_name[spans[i].action], point,
				    how == 1       ? ", waiting"
					: how == 2 ? ", and again in Recover"
						   : "");
				tests[n] =
				    (struct CMUnitTest){ one->name, killed_at, NULL, NULL, one };
				n++;
			}
		}
	}
	k = n;
	tests[k++] =
	    (struct CMUnitTest){ "somebody else was there", nobody_can_tell, NULL, NULL, NULL };
	tests[k++] = (struct CMUnitTest){ "somebody else was at the new name",
		rename_nobody_can_tell, NULL, NULL, NULL };
	tests[k++] =
	    (struct CMUnitTest){ "moved, and moved back", rename_moved_back, NULL, NULL, NULL };
	tests[k++] = (struct CMUnitTest){ "a removal that cannot be undone", remove_cannot_undo,
		NULL, NULL, NULL };
	for (uintptr_t i = 0; i < 3; i++)
		tests[k++] = (struct CMUnitTest){ "calls in line keep their order", order_survives,
			NULL, NULL, (void *)i };
	for (size_t i = 0; i < N_ELEMENTS(hangs); i++)
		tests[k++] = (struct CMUnitTest){ hangs[i].name, hangs_at, NULL, NULL, &hangs[i] };
	tests[k++] =
	    (struct CMUnitTest){ "content by descriptor", content_by_descriptor, NULL, NULL, NULL };
	tests[k++] = (struct CMUnitTest){ "two deaths", two_deaths, NULL, NULL, NULL };
	return _cmocka_run_group_tests("recover", tests, k, NULL, NULL);
}
