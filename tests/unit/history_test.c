/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/draft/history, history_file: the books of what was changed. A host may be killed while it
 * writes: whatever is in the file then is read as what was whole.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/draft/history.h"
#include "host/draft/history_file.h"
#include "shared/base/cleanup.h"
#include "tests/kit/sanitized.h"

#define ITEMS 4

static char state_dir[PATH_MAX];

static int
set_up(void **state)
{
	snprintf(state_dir, sizeof(state_dir), "%s/history.XXXXXX", getenv("TMPDIR"));
	return mkdtemp(state_dir) == NULL ? -1 : 0;
}

static int
tear_down(void **state)
{
	char line[PATH_MAX + 64];

	snprintf(line, sizeof(line), "rm -rf '%s'", state_dir);
	return system(line) == 0 ? 0 : -1; /* NOLINT(cert-env33-c): a directory of our own */
}

static struct draft_side
side(uint64_t ino)
{
	return (
	    struct draft_side){ KODA__FILE_TYPE__FILE_REGULAR, 1, ino, 10 * ino, 0644, 5, 6, NULL };
}

/* An entry with some items, written down. */
static void
make(struct history *h)
{
	struct koda_error err;

	assert_int_equal(history_make(state_dir, "/p", "abc", h, &err), 0);
	for (size_t i = 0; i < ITEMS; i++) {
		struct history_item *item = history_add(h, &err);

		assert_non_null(item);
		snprintf(item->name, sizeof(item->name), "%zu", i);
		assert_int_not_equal(asprintf(&item->place, "/p/file-%zu", i), -1);
		item->kind = KODA__DRAFT_KIND__DRAFT_CHANGED;
		item->before = side(i + 1);
		item->after = side(100 + i);
		item->after.type = KODA__FILE_TYPE__FILE_SYMLINK;
		item->after.target = strdup("target");
	}
	assert_int_equal(history_write(h, &err), 0);
}

static void
set_result(struct history_item *item, enum item_state state)
{
	item->state = state;
	side_done(&item->here);
	side_done(&item->held);
	item->here = side(1000);
	item->held = side(2000);
}

static void
reopen(struct history *h)
{
	char id[NAMED_ID_MAX + 1];
	struct koda_error err;

	snprintf(id, sizeof(id), "%s", h->id);
	history_close(h);
	if (history_open(state_dir, "/p", id, h, &err) < 0)
		fail_msg("%s", err.message);
}

static void
what_was_written(void **state)
{
	struct koda_error err;
	struct history h;
	size_t held = 0;

	make(&h);
	reopen(&h);
	assert_string_equal(h.root, "/p");
	assert_string_equal(h.draft, "abc");
	assert_true(h.unfinished);
	assert_int_equal(h.n_items, ITEMS);
	for (size_t i = 0; i < ITEMS; i++) {
		assert_int_equal(h.item[i].state, ITEM_PENDING);
		assert_int_equal(h.item[i].before.ino, i + 1);
		assert_int_equal(h.item[i].after.ino, 100 + i);
		assert_string_equal(h.item[i].after.target, "target");
	}
	for (size_t i = 0; i < ITEMS; i++) {
		struct history_item *item = &h.item[i];

		set_result(item, i == 3 ? ITEM_NOT_DONE : ITEM_DONE);
		assert_int_equal(history_results(&h, &item, 1, &err), 0);
	}
	assert_int_equal(history_finish(&h, &err), 0);
	reopen(&h);
	assert_false(h.unfinished);
	assert_int_equal(h.item[0].state, ITEM_DONE);
	assert_int_equal(h.item[3].state, ITEM_NOT_DONE);
	assert_int_equal(h.item[1].held.ino, 2000);
	/* Three files are held. */
	for (size_t i = 0; i < ITEMS; i++)
		held += h.item[i].held.type != 0 && h.item[i].held.size == 20000;
	assert_int_equal(held, 3);
	history_close(&h);
}

/* An entry that was taken back and done again many times is long, and needs no more memory for that. */
static void
long_one(void **state)
{
	static struct history_item *same[1000];
	const struct rlimit limit = { 64u << 20, 64u << 20 };
	char id[NAMED_ID_MAX + 1];
	struct koda_error err;
	struct history h;
	struct stat st;
	int status;
	pid_t pid;

	make(&h);
	set_result(&h.item[0], ITEM_DONE);
	for (size_t i = 0; i < N_ELEMENTS(same); i++)
		same[i] = &h.item[0];
	do {
		assert_int_equal(history_results(&h, same, N_ELEMENTS(same), &err), 0);
		assert_int_equal(fstat(h.items, &st), 0);
	} while (st.st_size < (off_t)(2 * limit.rlim_cur));
	snprintf(id, sizeof(id), "%s", h.id);
	history_close(&h);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (!SANITIZED && setrlimit(RLIMIT_DATA, &limit) < 0)
			_exit(1);
		_exit(history_open(state_dir, "/p", id, &h, &err) == 0 && h.n_items == ITEMS &&
			    h.item[0].state == ITEM_DONE
			? 0
			: 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* No record is as long as a frame may be: a file that says so is damaged. */
static void
absurd_length(void **state)
{
	const uint8_t length[] = { 0x7f, 0xff, 0xff, 0xff, 0 };
	char id[NAMED_ID_MAX + 1];
	struct koda_error err;
	struct history h;

	make(&h);
	snprintf(id, sizeof(id), "%s", h.id);
	assert_int_equal(write(h.items, length, sizeof(length)), sizeof(length));
	history_close(&h);
	assert_int_equal(history_open(state_dir, "/p", id, &h, &err), -1);
	assert_non_null(strstr(err.message, "is damaged"));
}

static void
turns(void **state)
{
	struct history_item *item;
	struct koda_error err;
	struct history h;

	make(&h);
	for (size_t i = 0; i < ITEMS; i++) {
		item = &h.item[i];
		set_result(item, ITEM_DONE);
		assert_int_equal(history_results(&h, &item, 1, &err), 0);
	}
	assert_int_equal(history_finish(&h, &err), 0);
	h.item[1].turning = h.item[2].turning = true;
	assert_int_equal(history_turn(&h, true, &err), 0);
	item = &h.item[2];
	set_result(item, ITEM_UNDONE);
	assert_int_equal(history_results(&h, &item, 1, &err), 0);
	/* Killed here: one of the two is left. */
	reopen(&h);
	assert_true(h.unfinished && h.turn_undone);
	assert_int_equal(h.item[1].state, ITEM_DONE);
	assert_true(h.item[1].turning);
	assert_int_equal(h.item[2].state, ITEM_UNDONE);
	assert_false(h.item[2].turning || h.item[0].turning);
	history_close(&h);
}

static size_t
size_of_items(const struct history *h)
{
	struct stat st;

	assert_int_equal(fstat(h->items, &st), 0);
	return (size_t)st.st_size;
}

/* Cut at every byte, the file is read up to the last whole record, and goes on from there. */
static void
every_prefix(void **state)
{
	size_t whole, items = ITEMS;
	uint8_t text[4096];
	struct history h;
	struct koda_error err;

	make(&h);
	whole = size_of_items(&h);
	reopen(&h); /* for reading, too */
	assert_true(whole < sizeof(text) && pread(h.items, text, whole, 0) == (ssize_t)whole);
	for (size_t len = whole; len > 0; len--) {
		struct history_item *item;

		assert_int_equal(ftruncate(h.items, 0), 0);
		assert_int_equal(write(h.items, text, len), len);
		reopen(&h);
		assert_true(size_of_items(&h) <= len && h.n_items <= items);
		items = h.n_items;
		if (items == 0)
			continue;
		item = &h.item[0];
		set_result(item, ITEM_DONE);
		assert_int_equal(history_results(&h, &item, 1, &err), 0);
		reopen(&h);
		assert_int_equal(h.n_items, items);
		assert_int_equal(h.item[0].state, ITEM_DONE);
	}
	assert_int_equal(items, 0);
	history_close(&h);
}

/* What is not a record is damage, and nothing is done by it. */
static void
damaged(void **state)
{
	static const uint8_t junk[] = { 0, 0, 0, 3, 'x', 'y', 'z' };
	char id[NAMED_ID_MAX + 1];
	struct koda_error err;
	struct history h;

	make(&h);
	snprintf(id, sizeof(id), "%s", h.id);
	assert_int_equal(write(h.items, junk, sizeof(junk)), sizeof(junk));
	history_close(&h);
	assert_int_equal(history_open(state_dir, "/p", id, &h, &err), -1);
	assert_int_equal(err.code, KODA_IO);
}

static int
count(void *data, const struct history *h)
{
	++*(size_t *)data;
	return 0;
}

static void
listed_and_removed(void **state)
{
	struct history a, b;
	struct koda_error err;
	size_t n = 0;

	make(&a);
	make(&b);
	assert_int_equal(history_list(state_dir, "/p", count, &n, &err), 0);
	assert_int_equal(n, 2);
	/* It is in use. */
	assert_int_equal(history_open(state_dir, "/p", a.id, &(struct history){ 0 }, &err), -1);
	assert_int_equal(err.code, KODA_CONFLICT);
	assert_int_equal(history_remove(state_dir, &a, &err), 0);
	n = 0;
	assert_int_equal(history_list(state_dir, NULL, count, &n, &err), 0);
	assert_int_equal(n, 1);
	history_close(&b);
}

static void
ids(void **state)
{
	static const char *const bad[] = { "", ".", "..", ".x", "a/b", "a b",
		"123456789012345678901234567890123", "\xc3\xa4" };

	assert_true(named_id_valid("abc-1.2_X"));
	for (size_t i = 0; i < N_ELEMENTS(bad); i++)
		assert_false(named_id_valid(bad[i]));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(long_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(absurd_length, set_up, tear_down),
		cmocka_unit_test_setup_teardown(turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(every_prefix, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damaged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(listed_and_removed, set_up, tear_down),
		cmocka_unit_test(ids),
	};

	return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
