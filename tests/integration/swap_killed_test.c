/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker is killed at each step of a Swap (worker/draft/), and the same items are sent to the next
 * one: then everything is as if no worker had died. Applied, taken back, and applied again; on one file
 * system and across two; also if the next worker dies, too.
 */
#include <poll.h>

#include "tests/kit/swapping.h"

#define POINT_FIRST 7 /* PAUSE_SWAP_NOTED */
#define POINT_LAST  15

static struct batch first, second, third;
static struct told told[ITEMS_MAX];
static unsigned hits[POINT_LAST + 1];

/* ---- what is applied ---- */

static void
add_changed(void)
{
	add_bring(&first, "p");
}

static void
add_marked(void)
{
	if (setxattr(L("p"), "user.overlay.origin", "x", 1, 0) < 0)
		skip_because("the file system has no user attributes");
	must(chmod(L("p"), 0444) == 0);
	add_bring(&first, "p");
}

static void
add_deleted(void)
{
	add_take(&first, "p");
}

static void
add_made(void)
{
	add_mkdir(&first, "p", 0751);
}

static void
add_type(void)
{
	add_take(&first, "p");
	add_mkdir(&first, "p", 0751);
}

static void
add_permissions(void)
{
	add_mode(&first, "p", 0640);
}

static void
add_two(void)
{
	add_bring(&first, "p");
	add_bring(&first, "q");
}

static const struct {
	const char *label, *script;
	void (*add)(void);
	bool no_undo; /* the mode before is in the host's items only */
} scenes[] = {
	{ "change",
	    "printf old >p; touch -d 2020-01-01 p; chmod 604 p;"
	    "cd \"$LAYER\"; printf new >p; touch -d 2021-01-01 p; chmod 751 p",
	    add_changed, false },
	{ "read-only, with marks",
	    "printf old >p; touch -d 2020-01-01 p; cd \"$LAYER\"; printf new >p;"
	    "touch -d 2021-01-01 p",
	    add_marked, false },
	{ "create", "cd \"$LAYER\"; printf new >p; touch -d 2021-01-01 p", add_changed, false },
	{ "link",
	    "ln -s a p; touch -hd 2020-01-01 p; cd \"$LAYER\"; ln -s bb p;"
	    "touch -hd 2021-01-01 p",
	    add_changed, false },
	{ "delete", "printf old >p; touch -d 2020-01-01 p", add_deleted, false },
	{ "delete a tree",
	    "mkdir -p p/q; printf a >p/a; printf b >p/q/b; touch -d 2020-01-01 p/a p/q/b;"
	    "ln -s a p/l; touch -hd 2020-01-01 p/l; chmod 751 p/q",
	    add_deleted, false },
	{ "make a directory", "true", add_made, false },
	{ "a directory for a file", "printf old >p; touch -d 2020-01-01 p", add_type, false },
	{ "permissions", "printf old >p; touch -d 2020-01-01 p", add_permissions, true },
	{ "two names of one file", "cd \"$LAYER\"; printf new >p; ln p q; touch -d 2021-01-01 p",
	    add_two, false },
};

enum round { APPLY, UNDO, REDO };
static const char *const round_name[] = { "apply", "undo", "redo" };

struct one {
	size_t scene;
	enum round round;
	bool across, twice;
	char name[96];
};

static void
arrange(const struct one *one)
{
	first.n = second.n = third.n = 0;
	scene_make(one->across);
	sh(scenes[one->scene].script);
	scenes[one->scene].add();
}

/* Does the rounds before, and returns the items of the round itself. */
static struct batch *
prepare(const struct one *one)
{
	struct worker w;

	if (one->round == APPLY)
		return &first;
	worker_start(&w, &plain);
	swap(&w, &first, told);
	assert_all(&first, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	add_back(&second, &first, told);
	if (one->round == REDO) {
		swap(&w, &second, told);
		assert_all(&second, told, KODA__SWAP_OUTCOME__SWAP_DONE);
		add_back(&third, &second, told);
	}
	worker_end(&w);
	return one->round == UNDO ? &second : &third;
}

/* ---- all that there is afterwards ---- */

/* Without the notes in `old`, of which there may be more or fewer. */
static char *
without_notes(char *tree)
{
	char *to = tree;

	for (char *line = tree, *next; *line != '\0'; line = next) {
		size_t n = strcspn(line, "\n");
		const bool note =
		    memmem(line, n, ".copy ", 6) != NULL || memmem(line, n, ".fit ", 5) != NULL;

		next = line + n + (line[n] == '\n');
		if (!note) {
			memmove(to, line, (size_t)(next - line));
			to += next - line;
		}
	}
	*to = '\0';
	return tree;
}

static char *
everything(void)
{
	cleanup_free char *root = tree_of(scene.root), *layer = tree_of(scene.layer),
			  *old = without_notes(tree_of(scene.old));
	char *all = NULL;

	must(asprintf(&all, "project:\n%slayer:\n%sold:\n%s", root, layer, old) >= 0);
	return all;
}

/* ---- dying ---- */

/* Sends the items to a worker that stops at that point, and kills it there. Returns false if it
 * answered instead. */
static bool
killed_at(struct batch *b, int point)
{
	char program[PATH_MAX];
	struct how how = { .program = program };
	struct worker w;
	bool stopped = false;

	snprintf(program, sizeof(program), "%s/koda-fs-worker-stop%d", KODA_TEST_VARIANT_DIR,
	    point);
	worker_start(&w, &how);
	send_batch(&w, b);
	for (;;) {
		struct pollfd fd = { .fd = w.fs.fd, .events = POLLIN };
		int status = 0;
		pid_t pid = waitpid(w.pid, &status, WUNTRACED | WNOHANG);

		must(pid >= 0);
		if (pid > 0) {
			assert_true(WIFSTOPPED(status));
			stopped = true;
			break;
		}
		if (poll(&fd, 1, 1) == 1)
			break;
	}
	if (stopped) {
		must(kill(w.pid, SIGKILL) == 0);
		must(waitpid(w.pid, NULL, 0) == w.pid);
		w.pid = 0;
		hits[point]++;
		frame_done(&w.fs);
		arena_done(&w.arena);
	} else {
		must_be_answered(&w);
		worker_end(&w);
	}
	return stopped;
}

static void
finish(struct batch *b)
{
	struct worker w;

	worker_start(&w, &plain);
	swap(&w, b, told);
	for (size_t i = 0; i < b->n; i++)
		if (told[i].outcome != KODA__SWAP_OUTCOME__SWAP_WAS_DONE)
			assert_outcome(&told[i], KODA__SWAP_OUTCOME__SWAP_DONE);
	worker_end(&w);
}

static void
undo_all(struct batch *b, const char *before)
{
	static struct batch back;
	cleanup_free char *after = NULL;
	struct worker w;

	back.n = 0;
	add_back(&back, b, told);
	worker_start(&w, &plain);
	swap(&w, &back, told);
	assert_all(&back, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	worker_end(&w);
	after = tree_of(scene.root);
	assert_string_equal(after, before);
}

static void
at_points(const struct one *one, int point, int next, const char *want)
{
	cleanup_free char *before = NULL, *got = NULL;
	struct batch *b;
	bool killed;

	arrange(one);
	b = prepare(one);
	before = tree_of(scene.root);
	killed = killed_at(b, point);
	if (killed && next != 0)
		killed_at(b, next);
	if (killed) {
		finish(b);
		got = everything();
		if (strcmp(got, want) != 0)
			fail_msg("killed at %d and %d:\n%s\ninstead of\n%s", point, next, got,
			    want);
		if (!scenes[one->scene].no_undo)
			undo_all(b, before);
	}
	scene_remove();
}

static void
test_killed(void **state)
{
	const struct one *one = *state;
	cleanup_free char *want = NULL;

	arrange(one);
	finish(prepare(one));
	want = everything();
	scene_remove();
	for (int point = POINT_FIRST; point <= POINT_LAST; point++) {
		if (!one->twice)
			at_points(one, point, 0, want);
		for (int next = POINT_FIRST; one->twice && next <= POINT_LAST; next++)
			at_points(one, point, next, want);
	}
}

/* Nothing was tested at a point that no worker came to. */
static void
test_each_point_was_hit(void **state)
{
	for (int point = POINT_FIRST; point <= POINT_LAST; point++)
		if (hits[point] == 0)
			fail_msg("no worker stopped at %d", point);
}

int
main(void)
{
	static struct one ones[N_ELEMENTS(scenes) * 3 * 2 * 2];
	struct CMUnitTest tests[N_ELEMENTS(ones) + 1];
	const char *filter = getenv("KODA_TEST_FILTER");
	size_t n = 0;

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < N_ELEMENTS(ones); i++) {
		struct one *one = &ones[n];

		*one =
		    (struct one){ i / 12, (enum round)(i % 3), i / 3 % 2 != 0, i / 6 % 2 != 0, "" };
		/* Twice, only what has the most steps. */
		if (scenes[one->scene].no_undo && one->round != APPLY)
			continue;
		if ((one->across && other_file_system() == NULL) ||
		    (one->twice && (one->round != UNDO || one->scene > 0) &&
			(one->round != APPLY || one->scene != 1)))
			continue;
		snprintf(one->name, sizeof(one->name), "%s: %s%s%s", scenes[one->scene].label,
		    round_name[one->round], one->across ? ", across" : "",
		    one->twice ? ", twice" : "");
		tests[n++] = (struct CMUnitTest){ one->name, test_killed, NULL, NULL, one };
	}
	if ((filter == NULL || filter[0] == '\0') && other_file_system() != NULL)
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_each_point_was_hit);
	return _cmocka_run_group_tests("swap_killed", tests, n, NULL, NULL);
}
