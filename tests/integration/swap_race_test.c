/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process changes the project while a Swap is at work (worker/draft/): it replaces the place,
 * the place's directory by a link that leads out, or moves the directory out of the root. Its own last
 * version of a file is never lost, and nothing gets outside.
 */
#include "tests/kit/swapping.h"

#define ROUNDS 60

static struct batch batch;
static struct told told[ITEMS_MAX];

static pid_t
start(void (*race)(unsigned), unsigned round)
{
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0) {
		/* From before the swap to after it, somewhere in the course of the rounds. */
		for (volatile unsigned i = 0; i < round * 2000; i++)
			;
		race(round);
		_exit(0);
	}
	return pid;
}

static void
join(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
}

static void
put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		_exit(1);
	close(fd);
}

/* ---- the place is replaced ---- */

#define VERSIONS 30

static void
replace_place(unsigned round)
{
	for (unsigned i = 1; i <= VERSIONS; i++) {
		char text[32];

		snprintf(text, sizeof(text), "user %u", i);
		put(R("fresh"), text);
		if (rename(R("fresh"), R("p")) < 0)
			_exit(1);
	}
}

static void
replaced(bool across)
{
	unsigned outcomes[8] = { 0 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct worker w;
		pid_t racer;

		scene_make(across);
		batch.n = 0;
		sh("printf old >p; printf new >\"$LAYER/p\"");
		add_bring(&batch, "p");
		worker_start(&w, &plain);
		racer = start(replace_place, round);
		swap(&w, &batch, told);
		join(racer);
		worker_end(&w);
		/* It wrote last in any case: what it wrote is there. */
		assert_text(R("p"), "user 30");
		assert_no_temps();
		outcomes[told[0].outcome]++;
		/* Across file systems that may be a version that it had replaced itself. */
		if (told[0].outcome == KODA__SWAP_OUTCOME__SWAP_DONE && !across)
			assert_text(O("i0"), "old");
		scene_remove();
	}
	if (outcomes[KODA__SWAP_OUTCOME__SWAP_CONFLICT] + outcomes[KODA__SWAP_OUTCOME__SWAP_DONE] !=
	    ROUNDS)
		fail_msg("other outcomes: %u gone, %u failed",
		    outcomes[KODA__SWAP_OUTCOME__SWAP_GONE],
		    outcomes[KODA__SWAP_OUTCOME__SWAP_FAILED]);
}

static void
test_place_is_replaced(void **state)
{
	replaced(false);
}

static void
test_place_is_replaced_across(void **state)
{
	if (other_file_system() == NULL)
		skip_because("there is no other file system to write to");
	replaced(true);
}

/* ---- the directory is somewhere else ---- */

static void
directory_becomes_link(unsigned round)
{
	for (unsigned i = 0; i < VERSIONS; i++)
		if (rename(R("d"), R("e")) < 0 || symlink("../outside", R("d")) < 0 ||
		    unlink(R("d")) < 0 || rename(R("e"), R("d")) < 0)
			_exit(1);
}

static void
directory_leaves(unsigned round)
{
	char out[PATH_MAX];

	snprintf(out, sizeof(out), "%s/outside/d", scene.base);
	for (unsigned i = 0; i < VERSIONS; i++)
		if (rename(R("d"), out) < 0 || rename(out, R("d")) < 0)
			_exit(1);
}

static void
moved(void (*race)(unsigned))
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct worker w;
		pid_t racer;
		char name[16];

		scene_make(false);
		batch.n = 0;
		sh("mkdir d \"$LAYER/d\" \"$BASE/outside\"; for i in 0 1 2 3 4 5 6 7 8 9; do "
		   "printf new >\"$LAYER/d/$i\"; done");
		for (unsigned i = 0; i < 10; i++) {
			snprintf(name, sizeof(name), "d/%u", i);
			add_bring(&batch, name);
		}
		worker_start(&w, &plain);
		racer = start(race, round);
		swap(&w, &batch, told);
		join(racer);
		worker_end(&w);
		/* The directory is back. Each file is in it, or still in the draft; none is outside. */
		assert_int_equal(scene_sh("test -z \"$(ls \"$BASE/outside\")\""), 0);
		for (unsigned i = 0; i < 10; i++) {
			snprintf(name, sizeof(name), "d/%u", i);
			if (told[i].outcome == KODA__SWAP_OUTCOME__SWAP_DONE)
				assert_text(R(name), "new");
			else
				assert_text(L(name), "new");
			assert_true(exists(R(name)) != exists(L(name)));
		}
		scene_remove();
	}
}

static void
test_directory_becomes_a_link(void **state)
{
	moved(directory_becomes_link);
}

static void
test_directory_leaves_the_root(void **state)
{
	moved(directory_leaves);
}

/* The directory becomes another one that commands may write, right before the rename that would make
 * the new name in it. (If it leaves what they may write, Landlock refuses the rename, too.) */
static void
test_directory_is_elsewhere(void **state)
{
	struct how how = { .program = KODA_TEST_VARIANT_DIR "/koda-fs-worker-stop13" };
	struct worker w;
	int status;

	scene_make(false);
	batch.n = 0;
	sh("mkdir d");
	add_mkdir(&batch, "d/made", 0755);
	worker_start(&w, &how);
	send_batch(&w, &batch);
	must(waitpid(w.pid, &status, WUNTRACED) == w.pid && WIFSTOPPED(status));
	sh("mv d e");
	must(kill(w.pid, SIGCONT) == 0);
	must_be_answered(&w);
	take_results(&w, &batch, told);
	assert_outcome(&told[0], KODA__SWAP_OUTCOME__SWAP_CONFLICT);
	assert_int_equal(scene_sh("test -z \"$(ls -A e)\""), 0);
	worker_end(&w);
	scene_remove();
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place_is_replaced),
		cmocka_unit_test(test_place_is_replaced_across),
		cmocka_unit_test(test_directory_becomes_a_link),
		cmocka_unit_test(test_directory_leaves_the_root),
		cmocka_unit_test(test_directory_is_elsewhere),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("swap_race", tests, NULL, NULL);
}
