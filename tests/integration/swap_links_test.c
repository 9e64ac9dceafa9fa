/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files with several names. What comes to the project has none in the draft, whose commands would
 * change it there, and what is in the project keeps the permissions that its other names have.
 */
#include "tests/kit/swapping.h"

static struct batch batch;
static struct told told[ITEMS_MAX];
static struct worker worker;

static int
begin(void **state)
{
	scene_make(false);
	batch.n = 0;
	return 0;
}

static int
end(void **state)
{
	scene_remove();
	return 0;
}

static nlink_t
names_of(const char *path)
{
	struct stat st;

	must(lstat(path, &st) == 0);
	return st.st_nlink;
}

static void
apply(void)
{
	worker_start(&worker, &plain);
	swap(&worker, &batch, told);
	worker_end(&worker);
}

/* A command goes on in the draft, in the name that was not applied. */
static void
write_in_draft(const char *name)
{
	cleanup_close int fd = open(L(name), O_WRONLY | O_TRUNC | O_CLOEXEC);

	must(fd >= 0 && write(fd, "hostile", 7) == 7);
}

static void
test_one_name(void **state)
{
	sh("printf was >b; cd \"$LAYER\"; printf seen >a; ln a b; ln a c; ln a .vscode; chmod 750 a;"
	   "touch -d '2020-02-02 02:02:02.123' a");
	add_bring(&batch, "a");
	add_bring(&batch, "b");
	apply();
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	write_in_draft("c");
	assert_text(R("a"), "seen");
	assert_text(R("b"), "seen");
	assert_text(O("i1"), "was");
	assert_int_equal(names_of(R("a")), 1);
	assert_int_equal(names_of(R("b")), 1);
	assert_int_equal(names_of(L("c")), 2);
	sh("test \"$(stat -c '%a %y' a | cut -c 1-27)\" = '750 2020-02-02 02:02:02.123'");
	assert_false(exists(L("a")) || exists(L("b")));
	assert_no_temps();
}

/* The result of the first request is lost, and the host sends it again. */
static void
test_one_name_again(void **state)
{
	sh("printf was >b; cd \"$LAYER\"; printf seen >a; ln a b; ln a c");
	add_bring(&batch, "a");
	add_bring(&batch, "b");
	apply();
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	apply();
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_WAS_DONE);
	write_in_draft("c");
	assert_text(R("a"), "seen");
	assert_text(R("b"), "seen");
	assert_no_temps();
}

static void
test_all_names(void **state)
{
	sh("cd \"$LAYER\"; printf seen >a; ln a b; ln a c");
	add_bring(&batch, "a");
	add_bring(&batch, "b");
	add_bring(&batch, "c");
	apply();
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	assert_int_equal(names_of(R("a")), 3);
}

/* All names were to come, and one could not: the user made that name meanwhile. */
static void
test_a_name_cannot_come(void **state)
{
	sh("cd \"$LAYER\"; printf seen >a; ln a b; ln a c");
	add_bring(&batch, "a");
	add_bring(&batch, "b");
	add_bring(&batch, "c");
	sh("printf user >b");
	apply();
	assert_int_equal(told[0].outcome, KODA__SWAP_OUTCOME__SWAP_DONE);
	assert_int_equal(told[1].outcome, KODA__SWAP_OUTCOME__SWAP_CONFLICT);
	assert_int_equal(told[2].outcome, KODA__SWAP_OUTCOME__SWAP_DONE);
	assert_text(R("a"), "seen");
	assert_text(R("b"), "user");
	assert_text(R("c"), "seen");
	/* It is kept, and no command reaches it. */
	assert_false(exists(L("b")));
	assert_text(O("i1"), "seen");
}

/* The first one cannot come: the others do without it. */
static void
test_the_first_name_cannot_come(void **state)
{
	sh("cd \"$LAYER\"; printf seen >a; ln a b; ln a c");
	add_bring(&batch, "a");
	add_bring(&batch, "b");
	add_bring(&batch, "c");
	sh("printf user >a");
	apply();
	assert_int_equal(told[0].outcome, KODA__SWAP_OUTCOME__SWAP_CONFLICT);
	write_in_draft("a");
	assert_text(R("a"), "user");
	assert_text(R("b"), "seen");
	assert_text(R("c"), "seen");
}

/* A hole is not written to the disk. */
static void
test_sparse(void **state)
{
	struct stat st;

	sh("cd \"$LAYER\"; truncate -s 256M a; printf middle | dd of=a bs=1M seek=100 conv=notrunc 2>&-;"
	   "printf begin | dd of=a conv=notrunc 2>&-; ln a c; cksum <a >\"$BASE/sum\"");
	add_bring(&batch, "a");
	apply();
	assert_all(&batch, told, KODA__SWAP_OUTCOME__SWAP_DONE);
	must(stat(R("a"), &st) == 0);
	assert_int_equal(st.st_size, 256 << 20);
	assert_true(st.st_blocks * 512 < 4 << 20);
	sh("cksum <a | cmp - \"$BASE/sum\"");
}

/* A store beside the project has the file, too. */
static void
test_mode_of_several_names(void **state)
{
	struct stat st;

	sh("printf x >\"$BASE/store\"; chmod 600 \"$BASE/store\"; ln \"$BASE/store\" stored");
	add_mode(&batch, "stored", 0666);
	apply();
	assert_int_equal(told[0].outcome, KODA__SWAP_OUTCOME__SWAP_CONFLICT);
	must(stat(in(scene.base, "store"), &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

int
main(void)
{
	static const struct CMUnitTest cases[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)
		CASE(one_name),
		CASE(one_name_again),
		CASE(all_names),
		CASE(a_name_cannot_come),
		CASE(the_first_name_cannot_come),
		CASE(sparse),
		CASE(mode_of_several_names),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("swap_links", cases, NULL, NULL);
}
