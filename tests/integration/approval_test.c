/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approval of a change: no callback, no, yes, an answer given later, and changes made between the
 * question and the yes.
 */
#include <sys/resource.h>

#include "tests/kit/cases.h"
#include "tests/kit/hosting.h"

struct asked {
	struct fixture *f;
	int times;
	/* what to do */
	bool yes, silent, twice;
	void (*meanwhile)(const struct fixture *);
	const char *look; /* read through the slot while being asked */
	/* what was seen */
	struct koda_approval *approval;
	enum koda_op_kind kind;
	enum koda_mode mode;
	char path[1024], to[1024], content[64], looked[64];
	size_t len, n_edits;
	uint64_t size_before, size_after, replacements, line, entries;
	enum koda_file_type type;
};

static void
ask(void *data, const struct koda_question *q)
{
	struct asked *a = data;

	a->times++;
	a->approval = q->approval;
	a->kind = q->kind;
	a->mode = q->mode;
	snprintf(a->path, sizeof(a->path), "%s", q->path);
	snprintf(a->to, sizeof(a->to), "%s", q->to == NULL ? "" : q->to);
	a->len = q->len;
	if (q->data != NULL)
		memcpy(a->content, q->data,
		    q->len < sizeof(a->content) ? q->len : sizeof(a->content));
	a->n_edits = q->n_edits;
	a->size_before = q->size_before;
	a->size_after = q->size_after;
	a->replacements = q->replacements;
	a->line = q->lines == NULL ? 0 : q->lines[0];
	a->entries = q->entries;
	a->type = q->type;
	if (a->look != NULL) {
		struct koda_result result;

		assert_int_equal(koda_fs_read(a->f->slot, a->look, &result, NULL), 0);
		memcpy(a->looked, result.data, result.len < 63 ? result.len : 63);
		koda_result_done(&result);
	}
	if (a->meanwhile != NULL)
		a->meanwhile(a->f);
	if (!a->silent)
		koda_approval_answer(q->approval, a->yes);
	if (a->twice)
		koda_approval_answer(q->approval, !a->yes);
}

static void
start_asking(struct fixture *f, struct asked *a)
{
	fixture_prepare(f, KODA_SAFE);
	f->options.approve = ask;
	f->options.data = a;
	a->f = f;
	fixture_open(f);
	f->slot = fixture_acquire(f);
	put_text(f, "f", "one\ntwo\n");
}

static const struct koda_edit edit_two = { "two", 3, "2", 1, false };
#define EDIT(p)                                                                                    \
	((struct koda_op){ .kind = KODA_OP_EDIT, .path = (p), .edits = &edit_two, .n_edits = 1 })
#define REMOVE(p, ...) ((struct koda_op){ .kind = KODA_OP_REMOVE, .path = (p), ##__VA_ARGS__ })
#define RENAME(p, q)   ((struct koda_op){ .kind = KODA_OP_RENAME, .path = (p), .to = (q) })
#define MKDIR(p)       ((struct koda_op){ .kind = KODA_OP_MKDIR, .path = (p) })

static void
nobody_there(void **state)
{
	struct koda_error err;
	struct koda_stats stats;
	struct fixture f;

	fixture_start(&f, KODA_SAFE);
	put_text(&f, "f", "old");
	assert_code((do_call(f.slot, &WRITE("f", "new"), &err), &err), KODA_NOT_APPROVED);
	assert_string_equal(err.path, at(&f, "f"));
	assert_string_equal(err.rule, "trust");
	assert_non_null(strstr(err.message, "Safe"));
	assert_non_null(strstr(err.message, at(&f, "f")));
	assert_string_equal(get_text(&f, "f"), "old");
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.refusals, 1);
	assert_int_equal(count_temps(&f), 0);
	fixture_end(&f);
}

static void
says_yes(void **state)
{
	static char big[100000];
	struct asked a = { .yes = true, .twice = true };
	struct koda_error err;
	struct fixture f;
	struct stat st;

	start_asking(&f, &a);
	assert_code((do_call(f.slot, &WRITE("f", "new"), &err), &err), KODA_OK);
	assert_int_equal(a.times, 1);
	assert_int_equal(a.kind, KODA_OP_WRITE);
	assert_int_equal(a.mode, KODA_SAFE);
	assert_int_equal(a.type, KODA_FILE_REGULAR);
	assert_int_equal(a.size_before, 8);
	assert_int_equal(a.size_after, 3);
	assert_int_equal(a.len, 3);
	assert_memory_equal(a.content, "new", 3);
	assert_string_equal(a.path, at(&f, "f"));
	assert_string_equal(get_text(&f, "f"), "new");

	put_text(&f, "f", "one\ntwo\n");
	assert_code((do_call(f.slot, &EDIT("f"), &err), &err), KODA_OK);
	assert_int_equal(a.n_edits, 1);
	assert_int_equal(a.line, 2);
	assert_int_equal(a.replacements, 1);
	assert_string_equal(get_text(&f, "f"), "one\n2\n");

	assert_code((do_call(f.slot, &WRITE("made", "x"), &err), &err), KODA_OK);
	assert_int_equal(a.type, KODA_FILE_NONE);
	assert_code((do_call(f.slot, &MKDIR("dir"), &err), &err), KODA_OK);
	assert_code((do_call(f.slot, &WRITE("dir/x", "x"), &err), &err), KODA_OK);
	assert_code((do_call(f.slot, &RENAME("made", "dir/y"), &err), &err), KODA_OK);
	assert_string_equal(a.to, at(&f, "dir/y"));
	assert_code((do_call(f.slot, &REMOVE("dir", .flags = KODA_RECURSIVE), &err), &err),
	    KODA_OK);
	assert_int_equal(a.entries, 3);
	assert_false(exists(&f, "dir"));
	assert_int_equal(symlink("f", at(&f, "link")), 0);
	assert_code((do_call(f.slot, &REMOVE("link"), &err), &err), KODA_OK);
	assert_int_equal(a.type, KODA_FILE_SYMLINK);
	assert_false(exists(&f, "link"));

	/* Content passed by descriptor is shown as well. */
	memset(big, 'b', sizeof(big));
	a.times = 0;
	assert_code((do_call(f.slot,
			 &(struct koda_op){ .kind = KODA_OP_WRITE,
			     .path = "big",
			     .data = big,
			     .len = sizeof(big) },
			 &err),
			&err),
	    KODA_OK);
	assert_int_equal(a.times, 1);
	assert_int_equal(a.len, sizeof(big));
	assert_memory_equal(a.content, big, sizeof(a.content));
	assert_int_equal(stat(at(&f, "big"), &st), 0);
	assert_int_equal(st.st_size, sizeof(big));
	fixture_end(&f);
}

static void
says_no(void **state)
{
	const struct koda_op ops[] = { WRITE("f", "new"), EDIT("f"), REMOVE("f"), RENAME("f", "g"),
		MKDIR("d"), WRITE("x/y/z", "deep") };
	struct asked a = { .yes = false, .silent = *state != NULL };
	struct koda_error err;
	struct fixture f;

	start_asking(&f, &a);
	for (size_t i = 0; i < N_ELEMENTS(ops); i++)
		assert_code((do_call(f.slot, &ops[i], &err), &err), KODA_NOT_APPROVED);
	assert_int_equal(a.times, N_ELEMENTS(ops));
	assert_string_equal(get_text(&f, "f"), "one\ntwo\n");
	assert_false(exists(&f, "g") || exists(&f, "d") || exists(&f, "x"));
	assert_int_equal(count_temps(&f), 0);
	/* Reading needs no approval. */
	assert_code((do_call(f.slot, &STAT("f"), &err), &err), KODA_OK);
	/* Neither does a dry run or a call that cannot succeed. */
	assert_code((do_call(f.slot, &WRITE("f", "new", .flags = KODA_DRY_RUN), &err), &err),
	    KODA_OK);
	assert_code((do_call(f.slot, &REMOVE("nothing"), &err), &err), KODA_IO);
	assert_int_equal(a.times, N_ELEMENTS(ops));
	assert_string_equal(get_text(&f, "f"), "one\ntwo\n");
	fixture_end(&f);
}

static void
change_content(const struct fixture *f)
{
	put_text(f, "f", "one\ntwo, but not the same\n");
}

static void
make_it(const struct fixture *f)
{
	put_text(f, "new", "somebody else's");
}

static void
retarget(const struct fixture *f)
{
	assert_int_equal(unlink(at(f, "link")), 0);
	assert_int_equal(symlink("other", at(f, "link")), 0);
}

static void
remove_it(const struct fixture *f)
{
	assert_int_equal(unlink(at(f, "f")), 0);
}

static void
turn_into_directory(const struct fixture *f)
{
	remove_it(f);
	assert_int_equal(mkdir(at(f, "f"), 0755), 0);
}

static void
turn_into_file(const struct fixture *f)
{
	assert_int_equal(rename(at(f, "empty"), at(f, "aside")), 0);
	put_text(f, "empty", "not empty at all");
}

static void
swap_parent(const struct fixture *f)
{
	assert_int_equal(rename(at(f, "dir"), at(f, "dir.old")), 0);
	assert_int_equal(symlink("other.dir", at(f, "dir")), 0);
}

/* The file changes between the question and the yes: the yes was for something else. */
static const struct {
	const char *label;
	struct koda_op op;
	void (*meanwhile)(const struct fixture *);
	enum koda_code want;
} changes[] = {
	{ "write, content changes", { .kind = KODA_OP_WRITE, .path = "f", .data = "x", .len = 1 },
	    change_content, KODA_CONFLICT },
	{ "edit, content changes",
	    { .kind = KODA_OP_EDIT, .path = "f", .edits = &edit_two, .n_edits = 1 }, change_content,
	    KODA_CONFLICT },
	{ "remove, content changes", { .kind = KODA_OP_REMOVE, .path = "f" }, change_content,
	    KODA_CONFLICT },
	{ "rename, content changes", { .kind = KODA_OP_RENAME, .path = "f", .to = "g" },
	    change_content, KODA_CONFLICT },
	{ "write, file is gone", { .kind = KODA_OP_WRITE, .path = "f", .data = "x", .len = 1 },
	    remove_it, KODA_CONFLICT },
	{ "write, file is a directory",
	    { .kind = KODA_OP_WRITE, .path = "f", .data = "x", .len = 1 }, turn_into_directory,
	    KODA_OK /* any refusal */ },
	{ "remove, file is a directory", { .kind = KODA_OP_REMOVE, .path = "f" },
	    turn_into_directory, KODA_CONFLICT },
	{ "create, somebody was faster",
	    { .kind = KODA_OP_WRITE, .path = "new", .data = "x", .len = 1 }, make_it,
	    KODA_CONFLICT },
	{ "mkdir, somebody was faster", { .kind = KODA_OP_MKDIR, .path = "new" }, make_it,
	    KODA_CONFLICT },
	{ "rename, destination appears", { .kind = KODA_OP_RENAME, .path = "f", .to = "new" },
	    make_it, KODA_CONFLICT },
	{ "remove, directory is a file", { .kind = KODA_OP_REMOVE, .path = "empty" },
	    turn_into_file, KODA_CONFLICT },
	{ "rename, directory is a file", { .kind = KODA_OP_RENAME, .path = "empty", .to = "g" },
	    turn_into_file, KODA_CONFLICT },
	{ "write, link leads elsewhere",
	    { .kind = KODA_OP_WRITE, .path = "link", .data = "x", .len = 1 }, retarget,
	    KODA_CONFLICT },
	{ "edit, link leads elsewhere",
	    { .kind = KODA_OP_EDIT, .path = "link", .edits = &edit_two, .n_edits = 1 }, retarget,
	    KODA_CONFLICT },
	{ "write, parent leads elsewhere",
	    { .kind = KODA_OP_WRITE, .path = "dir/f", .data = "x", .len = 1 }, swap_parent,
	    KODA_CONFLICT },
	{ "create, parent leads elsewhere",
	    { .kind = KODA_OP_WRITE, .path = "dir/new", .data = "x", .len = 1 }, swap_parent,
	    KODA_CONFLICT },
	{ "mkdir, parent leads elsewhere", { .kind = KODA_OP_MKDIR, .path = "dir/new" },
	    swap_parent, KODA_CONFLICT },
	{ "rename to, parent leads elsewhere",
	    { .kind = KODA_OP_RENAME, .path = "f", .to = "dir/new" }, swap_parent, KODA_CONFLICT },
};

static void
changed_meanwhile(void **state)
{
	size_t i = (uintptr_t)*state;
	struct asked a = { .yes = true, .meanwhile = changes[i].meanwhile };
	struct koda_error err;
	struct fixture f;
	struct stat st;

	start_asking(&f, &a);
	put_text(&f, "other", "one\ntwo\n");
	assert_int_equal(symlink("f", at(&f, "link")), 0);
	assert_int_equal(mkdir(at(&f, "dir"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "other.dir"), 0755), 0);
	assert_int_equal(mkdir(at(&f, "empty"), 0755), 0);
	put_text(&f, "dir/f", "one\ntwo\n");
	put_text(&f, "other.dir/f", "one\ntwo\n");
	do_call(f.slot, &changes[i].op, &err);
	assert_int_equal(a.times, 1);
	assert_int_not_equal(err.code, KODA_OK);
	if (changes[i].want != KODA_OK)
		assert_code(&err, changes[i].want);
	/* Only the change made in the meantime is there. */
	assert_string_equal(get_text(&f, "other"), "one\ntwo\n");
	assert_string_equal(get_text(&f, "other.dir/f"), "one\ntwo\n");
	assert_false(exists(&f, "other.dir/new") || exists(&f, "g"));
	if (changes[i].meanwhile == change_content)
		assert_string_equal(get_text(&f, "f"), "one\ntwo, but not the same\n");
	else if (changes[i].meanwhile == turn_into_file)
		assert_string_equal(get_text(&f, "empty"), "not empty at all");
	else if (changes[i].meanwhile == make_it)
		assert_string_equal(get_text(&f, "new"), "somebody else's");
	else if (changes[i].meanwhile == turn_into_directory)
		assert_true(stat(at(&f, "f"), &st) == 0 && S_ISDIR(st.st_mode));
	else if (changes[i].meanwhile == remove_it)
		assert_false(exists(&f, "f"));
	else
		assert_string_equal(get_text(&f, "f"), "one\ntwo\n");
	assert_int_equal(count_temps(&f), 0);
	fixture_end(&f);
}

/* The callback may use the slot, to show the current content. */
static void
looks_before_it_answers(void **state)
{
	struct asked a = { .yes = true, .look = "f" };
	struct koda_error err;
	struct answer done;
	struct fixture f;

	start_asking(&f, &a);
	assert_code((do_call(f.slot, &WRITE("f", "new"), &err), &err), KODA_OK);
	assert_string_equal(a.looked, "one\ntwo\n");
	put_text(&f, "f", "again");
	start_call(f.slot, &WRITE("f", "newer"), &done);
	wait_answer(f.ses, &done);
	assert_code(&done.err, KODA_OK);
	assert_memory_equal(a.looked, "again", 5);
	assert_string_equal(get_text(&f, "f"), "newer");
	fixture_end(&f);
}

static void
wait_question(struct fixture *f, const struct asked *a, int times)
{
	struct koda_error err;

	for (uint64_t end = clock_ms() + PATIENCE_MS; a->times < times && clock_ms() < end;)
		assert_true(koda_session_dispatch(f->ses, 100, &err) >= 0);
	assert_int_equal(a->times, times);
}

static double
cpu_seconds(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	    (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static void
answered_later(void **state)
{
	struct asked a = { .silent = true };
	struct koda_error err;
	struct answer done;
	struct fixture f;
	double cpu;
	int pid;

	start_asking(&f, &a);
	start_call(f.slot, &WRITE("f", "new", .timeout_ms = 200), &done);
	wait_question(&f, &a, 1);
	/* An answer may take longer than the call's timeout, and the worker may die meanwhile. */
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGKILL);
	cpu = cpu_seconds();
	for (uint64_t end = clock_ms() + 500; clock_ms() < end;)
		assert_int_equal(koda_session_dispatch(f.ses, 100, &err), 1);
	/* The library does not spin while it waits for the answer. */
	assert_true(cpu_seconds() - cpu < 0.1);
	assert_false(done.done);
	/* Other calls go on. */
	assert_code((do_call(f.slot, &STAT("f"), &err), &err), KODA_OK);
	assert_string_equal(get_text(&f, "f"), "one\ntwo\n");
	koda_approval_answer(a.approval, true);
	assert_false(done.done);
	wait_answer(f.ses, &done);
	assert_code(&done.err, KODA_OK);
	assert_string_equal(get_text(&f, "f"), "new");

	start_call(f.slot, &WRITE("f", "newer"), &done);
	wait_question(&f, &a, 2);
	koda_approval_answer(a.approval, false);
	wait_answer(f.ses, &done);
	assert_code(&done.err, KODA_NOT_APPROVED);
	assert_non_null(strstr(done.err.message, "Safe"));
	assert_string_equal(get_text(&f, "f"), "new");
	fixture_end(&f);
}

/* A late answer, also if there are several, is refused, and the question stays over. */
static void
assert_refused(struct koda_approval *approval)
{
	for (int i = 0; i < 2; i++) {
		errno = 0;
		koda_approval_answer_scope(approval, KODA_SCOPE_SESSION);
		assert_int_equal(errno, ESTALE);
		errno = 0;
		koda_approval_answer(approval, false);
		assert_int_equal(errno, ESTALE);
	}
}

/*
 * The slot or the whole session ends before the answer: the call has failed, once, and the late
 * answer has no effect.
 */
static void
answered_too_late(void **state)
{
	struct asked a = { .silent = true };
	struct answer done;
	struct fixture f;

	start_asking(&f, &a);
	start_call(f.slot, &WRITE("f", "new"), &done);
	wait_question(&f, &a, 1);
	if (*state == NULL) {
		koda_slot_release(f.slot);
		wait_answer(f.ses, &done);
		assert_refused(a.approval);
		assert_string_equal(get_text(&f, "f"), "one\ntwo\n");
		fixture_end(&f);
	} else {
		fixture_end(&f);
		assert_true(done.done);
		assert_refused(a.approval);
	}
	assert_code(&done.err, KODA_WORKER);
	assert_int_equal(done.times, 1);
}

/*
 * koda_call() does not wait for an answer after the callback. Each question is over then, whatever
 * is asked, answered or closed later.
 */
static void
answered_after_the_call(void **state)
{
	struct asked a = { .silent = true };
	struct koda_approval *first;
	struct koda_error err;
	struct answer done;
	struct fixture f;

	start_asking(&f, &a);
	assert_code((do_call(f.slot, &WRITE("f", "new"), &err), &err), KODA_NOT_APPROVED);
	first = a.approval;
	assert_refused(first);
	/* The next question does not take its place. */
	start_call(f.slot, &WRITE("f", "newer"), &done);
	wait_question(&f, &a, 2);
	assert_refused(first);
	assert_false(done.done);
	koda_approval_answer(a.approval, true);
	assert_int_equal(errno, 0);
	assert_refused(first);
	assert_refused(a.approval);
	wait_answer(f.ses, &done);
	assert_code(&done.err, KODA_OK);
	assert_int_equal(done.times, 1);
	assert_string_equal(get_text(&f, "f"), "newer");
	assert_refused(a.approval);
	fixture_end(&f);
	assert_refused(first);
	assert_refused(a.approval);
	assert_refused(NULL);
}

/*
 * The worker is killed after the yes and before it acts: the next worker acts, without a second
 * question.
 */
static void
dies_after_the_yes(void **state)
{
	struct asked a = { .silent = true };
	struct answer done;
	struct fixture f;
	int pid;

	start_asking(&f, &a);
	start_call(f.slot, &WRITE("f", "new"), &done);
	wait_question(&f, &a, 1);
	pid = koda_slot_pid(f.slot);
	kill(pid, SIGSTOP);
	koda_approval_answer(a.approval, true);
	kill(pid, SIGKILL);
	wait_answer(f.ses, &done);
	assert_code(&done.err, KODA_OK);
	assert_int_equal(a.times, 1);
	assert_string_equal(get_text(&f, "f"), "new");
	fixture_end(&f);
}

/* ---- answered from the event ---- */

static unsigned deaths, nested;

static void
answer_at_death(void *data, enum koda_event_kind kind, const char *text)
{
	struct asked *a = data;

	/* The answer starts nothing inside the event. */
	assert_int_equal(nested, 0);
	if (kind != KODA_EVENT_DEATH)
		return;
	deaths++;
	nested++;
	koda_approval_answer(a->approval, true);
	assert_int_equal(errno, 0);
	koda_approval_answer(a->approval, false);
	assert_int_equal(errno, ESTALE);
	nested--;
}

/* The session is closed after the answer, before the library acts on it. */
static void
answer_and_close(void *data, enum koda_event_kind kind, const char *text)
{
	struct asked *a = data;

	if (kind != KODA_EVENT_DEATH || a->approval == NULL)
		return;
	koda_approval_answer(a->approval, true);
	koda_session_close(a->f->ses);
}

static void
answered_and_closed(void **state)
{
	struct asked a = { .silent = true };
	struct answer done;
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_SAFE);
	f.options.approve = ask;
	f.options.event = answer_and_close;
	f.options.data = &a;
	a.f = &f;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "f", "one\ntwo\n");
	start_call(f.slot, &WRITE("f", "new"), &done);
	wait_question(&f, &a, 1);
	kill(koda_slot_pid(f.slot), SIGKILL);
	for (uint64_t end = clock_ms() + PATIENCE_MS; !done.done && clock_ms() < end;)
		if (koda_session_dispatch(f.ses, 10, &err) <= 0)
			break;
	assert_true(done.done);
	assert_int_equal(done.times, 1);
	assert_refused(a.approval);
	f.ses = NULL;
	fixture_end(&f);
}

/* The worker dies while a question is open, and the answer comes from the event that reports it:
 * there is one death and one new worker, and the change happens once. */
static void
answered_at_the_death(void **state)
{
	struct asked a = { .silent = true };
	struct koda_stats stats;
	struct answer done;
	struct fixture f;

	fixture_prepare(&f, KODA_SAFE);
	f.options.approve = ask;
	f.options.event = answer_at_death;
	f.options.data = &a;
	a.f = &f;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "f", "one\ntwo\n");
	deaths = 0;
	start_call(f.slot, &WRITE("f", "new"), &done);
	wait_question(&f, &a, 1);
	kill(koda_slot_pid(f.slot), SIGKILL);
	wait_answer(f.ses, &done);
	assert_code(&done.err, KODA_OK);
	assert_int_equal(deaths, 1);
	koda_session_stats(f.ses, &stats);
	assert_int_equal(stats.spawns, 2);
	assert_int_equal(stats.respawns, 1);
	assert_int_equal(a.times, 1);
	assert_string_equal(get_text(&f, "f"), "new");
	fixture_end(&f);
}

/*
 * The worker is killed in the middle of the approved change: the change happens once, without a
 * second question. If it has not happened yet, and the file has changed when the next worker acts,
 * the call fails: the yes was for the old content.
 */
static const struct {
	const char *label;
	int point; /* where the worker stops itself and is killed */
	void (*meanwhile)(const struct fixture *);
	enum koda_code want;
	const char *text;
} kills[] = {
	{ "dies with an empty file", 1, NULL, KODA_OK, "new" },
	{ "dies with a written file", 2, NULL, KODA_OK, "new" },
	{ "dies before the rename", 3, NULL, KODA_OK, "new" },
	{ "dies after the rename", 4, NULL, KODA_OK, "new" },
	{ "dies with a written file, content changes", 2, change_content, KODA_CONFLICT,
	    "one\ntwo, but not the same\n" },
	{ "dies before the rename, content changes", 3, change_content, KODA_CONFLICT,
	    "one\ntwo, but not the same\n" },
};

static void
dies_during_the_act(void **state)
{
	size_t i = (uintptr_t)*state;
	struct asked a = { .silent = true };
	struct answer done;
	struct fixture f;
	int pid;

	fixture_prepare(&f, KODA_SAFE);
	put_stopping_worker(&f, kills[i].point);
	f.options.approve = ask;
	f.options.data = &a;
	a.f = &f;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "f", "one\ntwo\n");
	start_call(f.slot, &WRITE("f", "new"), &done);
	wait_question(&f, &a, 1);
	pid = koda_slot_pid(f.slot);
	koda_approval_answer(a.approval, true);
	assert_true(wait_for_state(pid, 'T'));
	assert_string_equal(get_text(&f, "f"), kills[i].point < 4 ? "one\ntwo\n" : "new");
	if (kills[i].meanwhile != NULL)
		kills[i].meanwhile(&f);
	put_real_worker(&f);
	kill(pid, SIGKILL);
	wait_answer(f.ses, &done);
	assert_code(&done.err, kills[i].want);
	assert_int_equal(done.times, 1);
	/* Only what had happened is recovered; the rest is done by the next worker. */
	assert_int_equal(done.recovered, kills[i].point == 4);
	assert_int_equal(a.times, 1);
	assert_string_equal(get_text(&f, "f"), kills[i].text);
	assert_int_equal(count_temps(&f), 0);
	fixture_end(&f);
}

static void
plan_changes_nothing(void **state)
{
	const struct koda_op ops[] = { WRITE("f", "new"), EDIT("f"), REMOVE("f"), RENAME("f", "g"),
		MKDIR("d") };
	struct asked a = { .yes = true };
	struct koda_error err;
	struct fixture f;

	fixture_prepare(&f, KODA_PLAN);
	f.options.approve = ask;
	f.options.data = &a;
	a.f = &f;
	fixture_open(&f);
	f.slot = fixture_acquire(&f);
	put_text(&f, "f", "one\ntwo\n");
	for (size_t i = 0; i < N_ELEMENTS(ops); i++) {
		assert_code((do_call(f.slot, &ops[i], &err), &err), KODA_POLICY_DENIED);
		assert_string_equal(err.rule, "trust");
		if (strcasestr(err.message, "plan") == NULL)
			fail_msg("'%s' does not name the mode", err.message);
	}
	assert_int_equal(a.times, 0);
	assert_string_equal(get_text(&f, "f"), "one\ntwo\n");
	fixture_end(&f);
}

/* A call that the policy refuses causes no question. */
static void
refused_is_not_asked(void **state)
{
	struct asked a = { .yes = true };
	struct koda_error err;
	struct fixture f;

	start_asking(&f, &a);
	assert_code((do_call(f.slot, &WRITE("/etc/koda-test", "x"), &err), &err),
	    KODA_POLICY_DENIED);
	assert_code((do_call(f.slot, &WRITE(".git/config", "x"), &err), &err), KODA_POLICY_DENIED);
	assert_int_equal(a.times, 0);
	fixture_end(&f);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(changes) + N_ELEMENTS(kills) + 14];
	size_t n = 0;

	CASES(changes, changed_meanwhile);
	CASES(kills, dies_during_the_act);
#define ADD(label, fn, data)                                                                       \
	tests[n++] = (struct CMUnitTest){ label, fn, NULL, NULL, (void *)(uintptr_t)(data) }
	ADD("nobody there", nobody_there, 0);
	ADD("yes", says_yes, 0);
	ADD("no", says_no, 0);
	ADD("no answer", says_no, 1);
	ADD("looks before it answers", looks_before_it_answers, 0);
	ADD("answered later", answered_later, 0);
	ADD("answered after the call", answered_after_the_call, 0);
	ADD("answered after release", answered_too_late, 0);
	ADD("answered after close", answered_too_late, 1);
	ADD("dies after the yes", dies_after_the_yes, 0);
	ADD("answered at the death", answered_at_the_death, 0);
	ADD("answered at the death, and closed", answered_and_closed, 0);
	ADD("plan changes nothing", plan_changes_nothing, 0);
	ADD("what is refused is not asked", refused_is_not_asked, 0);
	return _cmocka_run_group_tests("approval", tests, n, NULL, NULL);
}
