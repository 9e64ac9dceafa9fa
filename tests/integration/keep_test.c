/*
 * worker/files/keep, host/workspace/keeping: what file operations change is kept in the history, and
 * koda_history_undo() takes it back, bit for bit; whatever was killed on the way.
 */
#include <sched.h>
#include <sys/mount.h>

#include "host/draft/history_trim.h"

#include "tests/kit/keeping.h"
#include "tests/kit/skip.h"

/* ---- every operation ---- */

static const struct koda_edit edit = { "two", 3, "two two!", 8, false };
#define EDIT(p)                                                                                    \
	{                                                                                          \
		.kind = KODA_OP_EDIT, .path = (p), .edits = &edit, .n_edits = 1                    \
	}
#define PUT(p, text)                                                                               \
	{                                                                                          \
		.kind = KODA_OP_WRITE, .path = (p), .data = (text), .len = sizeof(text) - 1        \
	}
#define MKDIR(p)                                                                                   \
	{                                                                                          \
		.kind = KODA_OP_MKDIR, .path = (p), .flags = KODA_PARENTS                          \
	}
#define REMOVE(p)                                                                                  \
	{                                                                                          \
		.kind = KODA_OP_REMOVE, .path = (p), .flags = KODA_RECURSIVE                       \
	}
#define RENAME(p, q, over)                                                                         \
	{                                                                                          \
		.kind = KODA_OP_RENAME, .path = (p), .to = (q),                                    \
		.flags = (over) ? KODA_OVERWRITE : 0                                               \
	}

static const struct scene {
	const char *label, *listed;
	struct koda_op op[6];
	int last; /* point at which a worker of it can stop; 0: not asked */
} scenes[] = {
	{ "replace", "changed old\n", { PUT("old", "new") }, 4 },
	{ "edit", "changed old\n", { EDIT("old") }, 4 },
	{ "create", "created fresh\n", { PUT("fresh", "x") }, 4 },
	{ "create with directories", "created x\ncreated x/y\ncreated x/y/z\n",
	    { PUT("x/y/z", "deep") }, 4 },
	{ "mkdir", "created p\ncreated p/q\n", { MKDIR("p/q") }, 4 },
	{ "remove a file", "deleted old\n", { REMOVE("old") }, 5 },
	{ "remove a link", "deleted link\n", { REMOVE("link") }, 5 },
	{ "remove an empty directory", "deleted empty\n",
	    { { .kind = KODA_OP_REMOVE, .path = "empty" } }, 5 },
	{ "remove a tree", "deleted dir\n", { REMOVE("dir") }, 5 },
	{ "rename", "renamed old moved\n", { RENAME("old", "moved", false) }, 4 },
	{ "rename a directory", "renamed dir dir2\n", { RENAME("dir", "dir2", false) }, 4 },
	{ "rename over a file", "deleted other\nrenamed old other\n",
	    { RENAME("old", "other", true) }, 4 },
	{ "the same file many times",
	    "changed old\nchanged old\nrenamed old moved\nchanged moved\ndeleted moved\ncreated old\n",
	    { PUT("old", "1"), PUT("old", "22"), RENAME("old", "moved", false), PUT("moved", "333"),
		REMOVE("moved"), PUT("old", "4444") },
	    0 },
	{ "a new file, changed and removed", "created n\nchanged n\ndeleted n\n",
	    { PUT("n", "1 two"), EDIT("n"), REMOVE("n") }, 0 },
	{ "a new directory, filled and moved",
	    "created d\ncreated d/e\ncreated d/e/f\nrenamed d g\nchanged g/e/f\n",
	    { PUT("d/e/f", "1"), RENAME("d", "g", false), PUT("g/e/f", "2") }, 0 },
};

static void
begin(struct kept *k, const char *where)
{
	memset(k, 0, sizeof(*k));
	events[0] = '\0';
	fixture_prepare(&k->f, KODA_AUTO);
	snprintf(k->state, sizeof(k->state), "%s/state.XXXXXX", where != NULL ? where : k->f.dir);
	assert_non_null(mkdtemp(k->state));
	setenv("XDG_STATE_HOME", k->state, 1);
	k->f.options.event = on_event;
	arrange(&k->f);
}

static void
start(struct kept *k)
{
	fixture_open(&k->f);
	k->f.slot = fixture_acquire(&k->f);
}

static void
restart(struct kept *k)
{
	koda_session_close(k->f.ses);
	start(k);
}

static void
end(struct kept *k)
{
	fixture_end(&k->f);
	unsetenv("XDG_STATE_HOME");
	shell("rm -rf \"$0\"", k->state);
}

static void
run(struct kept *k, const struct scene *s)
{
	struct koda_error err;

	for (size_t i = 0; i < N_ELEMENTS(s->op) && s->op[i].kind != 0; i++)
		assert_code((do_call(k->f.slot, &s->op[i], &err), &err), KODA_OK);
}

/* live: by the session that made the changes; else by the next one. */
static void
there_and_back(const struct scene *s, const char *where, bool live, bool commands)
{
	cleanup_free char *before = NULL, *after = NULL;
	struct kept k;

	begin(&k, where);
	k.f.options.commands = commands;
	start(&k);
	before = picture(&k.f);
	run(&k, s);
	after = picture(&k.f);
	if (!live)
		restart(&k);
	look(&k);
	assert_int_equal(k.n_entries, 1);
	assert_string_equal(list(&k), s->listed);
	for (int i = 0; i < 2; i++) {
		turn(&k, false, KODA_TAKE_NONE);
		assert_all_applied(&k);
		assert_picture(&k.f, before);
		turn(&k, true, KODA_TAKE_NONE);
		assert_all_applied(&k);
		assert_picture(&k.f, after);
	}
	assert_int_equal(count_temps(&k.f), 0);
	look(&k);
	assert_int_equal(k.undone, 0);
	assert_string_equal(events, "");
	end(&k);
}

static void
taken_back(void **state)
{
	there_and_back(*state, NULL, false, false);
}

static void
taken_back_live(void **state)
{
	there_and_back(*state, NULL, true, false);
}

static void
taken_back_across(void **state)
{
	struct stat a, b;

	if (stat("/dev/shm", &a) < 0 || stat(getenv("TMPDIR") ?: "/tmp", &b) < 0 ||
	    a.st_dev == b.st_dev || access("/dev/shm", W_OK) < 0)
		skip_because("there is no second file system");
	there_and_back(*state, "/dev/shm", false, false);
}

/* The worker is in the sandbox, in which the history is another mount. */
static void
taken_back_sandboxed(void **state)
{
	there_and_back(*state, NULL, true, true);
}

/* ---- who only reads ---- */

static void
reading_leaves_nothing(void **state)
{
	struct koda_error err;
	char path[PATH_MAX];
	struct stat st;
	struct kept k;

	begin(&k, NULL);
	start(&k);
	assert_code((do_call(k.f.slot, &STAT("old"), &err), &err), KODA_OK);
	look(&k);
	assert_int_equal(k.n_entries, 0);
	koda_session_close(k.f.ses);
	k.f.ses = NULL;
	snprintf(path, sizeof(path), "%s/koda-sandbox", k.state);
	assert_int_equal(lstat(path, &st), -1);
	end(&k);
}

static void
no_history(void **state)
{
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	k.f.options.no_history = true;
	start(&k);
	assert_code((do_call(k.f.slot, &WRITE("old", "new"), &err), &err), KODA_OK);
	restart(&k);
	look(&k);
	assert_int_equal(k.n_entries, 0);
	end(&k);
}

static void
no_place(void **state)
{
	struct koda_error err;
	struct kept k;

	if (geteuid() == 0)
		skip_because("root may write everywhere");
	begin(&k, NULL);
	assert_int_equal(chmod(k.state, 0500), 0);
	start(&k);
	assert_code((do_call(k.f.slot, &WRITE("old", "new"), &err), &err), KODA_OK);
	assert_string_equal(get_text(&k.f, "old"), "new");
	assert_non_null(strstr(events, "cannot be taken back"));
	assert_int_equal(chmod(k.state, 0700), 0);
	end(&k);
}

/* ---- conflicts, rules ---- */

static void
changed_since(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k,
	    &(struct scene){ .op = { PUT("old", "new"), PUT("fresh", "x"), REMOVE("other"),
				 RENAME("dir/a", "dir/z", false) } });
	restart(&k);
	look(&k);
	put_text(&k.f, "old", "the user's");
	put_text(&k.f, "other", "the user's other");
	put_text(&k.f, "dir/a", "the user's a");
	turn(&k, false, KODA_TAKE_NONE);
	assert_non_null(strstr(k.told, "conflict changed old"));
	assert_non_null(strstr(k.told, "applied created fresh"));
	assert_non_null(strstr(k.told, "conflict deleted other"));
	assert_non_null(strstr(k.told, "conflict renamed dir/a"));
	assert_string_equal(get_text(&k.f, "old"), "the user's");
	assert_string_equal(get_text(&k.f, "other"), "the user's other");
	assert_string_equal(get_text(&k.f, "dir/a"), "the user's a");
	assert_string_equal(get_text(&k.f, "dir/z"), "a");
	assert_false(exists(&k.f, "fresh"));
	end(&k);
}

static void
refused_by_rule(void **state)
{
	struct koda_policy *policy;
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &scenes[0]);
	koda_session_close(k.f.ses);
	policy = koda_policy_for_agent(KODA_AUTO, k.f.root, &err);
	assert_non_null(policy);
	assert_int_equal(koda_policy_add(policy, KODA_DENY_WRITE_WITHIN_ALLOW, at(&k.f, "old"),
			     &err),
	    0);
	assert_int_equal(koda_policy_freeze(policy, &err), 0);
	k.f.options.policy = policy;
	start(&k);
	look(&k);
	assert_non_null(strstr(turn(&k, false, KODA_TAKE_NONE), "refused changed old"));
	assert_string_equal(get_text(&k.f, "old"), "new");
	k.f.options.policy = NULL;
	end(&k);
	koda_policy_free(policy);
}

static void
refused_in_plan(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &scenes[0]);
	koda_session_close(k.f.ses);
	k.f.options.mode = KODA_PLAN;
	start(&k);
	look(&k);
	assert_non_null(strstr(turn(&k, false, KODA_TAKE_NONE), "refused changed old"));
	assert_string_equal(get_text(&k.f, "old"), "new");
	end(&k);
}

/* ---- whatever is killed ---- */

struct one {
	const struct scene *scene;
	int point;
	bool host; /* it dies, too */
	char name[96];
};

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

/* Both, in another process. Returns after they are gone. */
static void
kill_both(struct kept *k, const struct scene *s, int point)
{
	int out[2], status, worker = 0;
	pid_t host;

	assert_int_equal(pipe(out), 0);
	put_stopping_worker(&k->f, point);
	host = fork();
	if (host == 0) {
		struct koda_error err;
		struct answer a;

		k->f.ses = koda_session_open(&k->f.options, &err);
		k->f.slot = k->f.ses == NULL ? NULL : koda_slot_acquire(k->f.ses, NULL, &err);
		if (k->f.slot == NULL)
			_exit(1);
		worker = koda_slot_pid(k->f.slot);
		start_call(k->f.slot, &s->op[0], &a);
		koda_session_dispatch(k->f.ses, 0, &err);
		if (write(out[1], &worker, sizeof(worker)) != sizeof(worker))
			_exit(2);
		for (;;)
			pause();
	}
	close(out[1]);
	assert_int_equal(read(out[0], &worker, sizeof(worker)), sizeof(worker));
	close(out[0]);
	assert_true(wait_for_state(worker, 'T'));
	kill(host, SIGKILL);
	assert_int_equal(waitpid(host, &status, 0), host);
	kill(worker, SIGKILL);
	for (uint64_t until = clock_ms() + PATIENCE_MS; kill(worker, 0) == 0 && clock_ms() < until;
	     blink())
		if (process_state(worker) == 'Z')
			break;
	put_real_worker(&k->f);
	start(k);
}

/* What the kills left beside the names of the project is of the kill, not of the history. */
static void
remove_temps(const struct fixture *f)
{
	shell("find \"$0\" -depth -name '.koda-*' -exec rm -rf {} +", f->root);
}

static void
killed(void **state)
{
	const struct one *one = *state;
	cleanup_free char *before = NULL;
	struct kept k;

	begin(&k, NULL);
	before = picture(&k.f);
	if (one->host)
		kill_both(&k, one->scene, one->point);
	else
		kill_worker(&k, one->scene, one->point);
	if (!one->host)
		assert_int_equal(count_temps(&k.f), 0);
	restart(&k);
	look(&k);
	/* Before that, a worker had not written it down, and not done it. */
	if (k.n_entries == 1) {
		turn(&k, false, KODA_TAKE_NONE);
		assert_all_applied(&k);
	} else {
		assert_true(one->host && one->point < 16);
	}
	if (one->host)
		remove_temps(&k.f);
	assert_int_equal(count_temps(&k.f), 0);
	assert_picture(&k.f, before);
	end(&k);
}

/* A worker that was taken over has written what it likes where logs are. */
static void
hostile_logs(void **state)
{
	struct kept k;

	begin(&k, NULL);
	start(&k);
	run(&k, &scenes[0]);
	koda_session_close(k.f.ses);
	shell("cd \"$0\"/koda-sandbox/history/*/*/old; for l in *.log; do printf "
	      "'\\0\\0\\0\\4xxxx' >>$l; done; mkfifo 0000000000000000.log; "
	      "ln -s /dev/zero 0000000000000001.log; mkdir 0000000000000002.log; "
	      "head -c 100000 /dev/urandom >0000000000000003.log; "
	      "head -c 100000 /dev/zero >0000000000000004.log",
	    k.state);
	start(&k);
	look(&k);
	assert_string_equal(list(&k), "changed old\n");
	turn(&k, false, KODA_TAKE_NONE);
	assert_all_applied(&k);
	assert_string_equal(get_text(&k.f, "old"), "one two");
	end(&k);
}

/* ---- bounds ---- */

static void
put_entry(struct kept *k, const char *text)
{
	struct koda_error err;

	start(k);
	assert_code((do_call(k->f.slot, &WRITE("old", text), &err), &err), KODA_OK);
	koda_session_close(k->f.ses);
	k->f.ses = NULL;
}

static void
bounded(void **state)
{
	struct history_trimmed gone;
	char dir[PATH_MAX], first[64];
	struct koda_error err;
	struct kept k;

	begin(&k, NULL);
	snprintf(dir, sizeof(dir), "%s/koda-sandbox", k.state);
	put_entry(&k, "1");
	look(&k);
	snprintf(first, sizeof(first), "%s", k.id);
	put_entry(&k, "22");
	put_entry(&k, "333");
	start(&k);
	assert_code((do_call(k.f.slot, &WRITE("old", "4444"), &err), &err), KODA_OK);
	/* They keep 7, 1, 2 and 3 bytes, and the last one is in use. */
	assert_int_equal(history_trim(dir, 13, INT64_MAX, &gone), 0);
	assert_int_equal(gone.entries, 0);
	assert_int_equal(history_trim(dir, 6, INT64_MAX, &gone), 0);
	assert_int_equal(gone.entries, 1);
	assert_int_equal(gone.bytes, 7);
	assert_int_equal(koda_history_changes(k.f.root, first, on_change, &k, &err), -1);
	look(&k);
	assert_int_equal(k.n_entries, 3);
	/* Too old, and in use. */
	assert_int_equal(history_trim(dir, 1000, -1, &gone), 0);
	assert_int_equal(gone.entries, 2);
	look(&k);
	assert_int_equal(k.n_entries, 1);
	turn(&k, false, KODA_TAKE_NONE);
	assert_string_equal(get_text(&k.f, "old"), "333");
	end(&k);
}

/* ---- a full disk ---- */

static int
with_small_disk(struct kept *k)
{
	struct koda_error err;
	char text[300];
	FILE *map;
	uid_t uid = geteuid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 77;
	map = fopen("/proc/self/uid_map", "w");
	if (map == NULL || fprintf(map, "%u %u 1", uid, uid) < 0 || fclose(map) != 0)
		return 77;
	if (mount("tmpfs", k->state, "tmpfs", 0, "size=64k,mode=700") < 0)
		return 77;
	k->f.ses = koda_session_open(&k->f.options, &err);
	k->f.slot = k->f.ses == NULL ? NULL : koda_slot_acquire(k->f.ses, NULL, &err);
	if (k->f.slot == NULL)
		return 1;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 300; i++)
		if (do_call(k->f.slot, &WRITE("old", text), &err) != KODA_OK)
			return 2;
	if (strstr(events, "cannot be taken back") == NULL)
		return 3;
	return 0;
}

static void
full_disk(void **state)
{
	int status;
	struct kept k;
	pid_t pid;

	begin(&k, NULL);
	pid = fork();
	if (pid == 0)
		_exit(with_small_disk(&k));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		end(&k);
		skip_because("a namespace with a disk of its own cannot be made");
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	end(&k);
}

int
main(void)
{
	enum { SCENES = N_ELEMENTS(scenes), POINTS = 8 };
	static const struct CMUnitTest plain[] = {
		cmocka_unit_test(reading_leaves_nothing),
		cmocka_unit_test(no_history),
		cmocka_unit_test(no_place),
		cmocka_unit_test(changed_since),
		cmocka_unit_test(refused_by_rule),
		cmocka_unit_test(refused_in_plan),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(bounded),
		cmocka_unit_test(hostile_logs),
	};
	static struct CMUnitTest tests[N_ELEMENTS(plain) + 4 * SCENES + 2 * POINTS * SCENES];
	static struct one ones[2 * POINTS * SCENES];
	static char names[4 * SCENES][96];
	static const struct {
		const char *label;
		CMUnitTestFunction run;
	} ways[] = { { "next session", taken_back }, { "same session", taken_back_live },
		{ "two file systems", taken_back_across },
		{ "with commands", taken_back_sandboxed } };
	static const int points[] = { 1, 2, 3, 4, 5, 16, 17 };
	size_t n = 0, n_ones = 0;

	for (size_t i = 0; i < N_ELEMENTS(plain); i++)
		tests[n++] = plain[i];
	for (size_t i = 0; i < SCENES; i++)
		for (size_t w = 0; w < 4; w++) {
			snprintf(names[4 * i + w], sizeof(names[0]), "%s, %s", scenes[i].label,
			    ways[w].label);
			tests[n++] = (struct CMUnitTest){ names[4 * i + w], ways[w].run, NULL, NULL,
				(void *)(uintptr_t)&scenes[i] };
		}
	for (size_t i = 0; i < SCENES; i++)
		for (size_t p = 0; p < N_ELEMENTS(points); p++)
			for (int host = 0; host < 2; host++) {
				const bool makes = scenes[i].op[0].kind == KODA_OP_WRITE ||
				    scenes[i].op[0].kind == KODA_OP_EDIT;
				const bool moves = scenes[i].op[0].kind == KODA_OP_REMOVE &&
				    strchr(scenes[i].listed, 'y') == NULL &&
				    strstr(scenes[i].listed, "dir") != NULL;
				struct one *one = &ones[n_ones];

				if (scenes[i].last == 0 || (points[p] < 3 && !makes) ||
				    (points[p] == 5 && scenes[i].last < 5) ||
				    (points[p] == 17 && !moves))
					continue;
				n_ones++;
				*one = (struct one){ &scenes[i], points[p], host == 1, "" };
				snprintf(one->name, sizeof(one->name), "%s, %s killed at %d",
				    scenes[i].label, host ? "both" : "worker", points[p]);
				tests[n++] =
				    (struct CMUnitTest){ one->name, killed, NULL, NULL, one };
			}
	return _cmocka_run_group_tests("keep", tests, n, NULL, NULL);
}
