/* SPDX-License-Identifier: Apache-2.0 */
/* The places that a worker reported. Covers host/protect/place_set.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "host/protect/place_set.h"

#define MOST 1000

static int
add(struct place_set *set, const char *path, uint64_t ino, bool sure, size_t most)
{
	Koda__Place place = KODA__PLACE__INIT;
	struct koda_error err;

	place.path = (ProtobufCBinaryData){ strlen(path), (uint8_t *)(uintptr_t)path };
	place.kind = KODA__PLACE_KIND__PLACE_RULE;
	place.type = KODA__FILE_TYPE__FILE_REGULAR;
	place.ino = ino;
	return place_set_add(set, &place, sure, most, &err);
}

static const char *
numbered(unsigned i)
{
	static char path[32];

	snprintf(path, sizeof(path), "/p/%u", i);
	return path;
}

static void
is_replaced_by_a_newer_report(void **state)
{
	struct place_set set = { 0 };

	for (unsigned i = 0; i < MOST; i++)
		assert_int_equal(add(&set, numbered(i), i, true, MOST), 0);
	assert_int_equal(set.n, MOST);
	for (unsigned i = 0; i < MOST; i += 7)
		assert_int_equal(add(&set, numbered(i), MOST + i, false, MOST), 0);
	assert_int_equal(set.n, MOST);
	for (unsigned i = 0; i < MOST; i++) {
		assert_int_equal(set.place[i]->ino, i % 7 == 0 ? MOST + i : i);
		assert_int_equal(set.sure[i], i % 7 != 0);
	}
	place_set_done(&set);
}

/* A full set takes no new place, but it takes a newer report of a place that it has. */
static void
is_full(void **state)
{
	struct place_set set = { 0 };

	assert_int_equal(add(&set, "/a", 1, true, 2), 0);
	assert_int_equal(add(&set, "/b", 2, true, 2), 0);
	assert_int_equal(add(&set, "/c", 3, true, 2), 1);
	assert_int_equal(add(&set, "/b", 4, true, 2), 0);
	assert_int_equal(add(&set, "/b", 5, true, 1), 0);
	assert_int_equal(set.n, 2);
	assert_int_equal(set.place[1]->ino, 5);
	place_set_done(&set);
}

/* After some places are forgotten, the others are found at their new index. */
static void
is_found_after_others_are_gone(void **state)
{
	bool gone[MOST] = { false };
	struct place_set set = { 0 };

	for (unsigned i = 0; i < MOST; i++) {
		assert_int_equal(add(&set, numbered(i), i, i % 2 == 0, MOST), 0);
		gone[i] = i % 3 == 0;
	}
	place_set_forget(&set, gone);
	for (unsigned i = 0; i < MOST; i++)
		assert_int_equal(add(&set, numbered(i), i, i % 2 == 0, MOST), 0);
	assert_int_equal(set.n, MOST);
	place_set_forget_unsure(&set);
	assert_int_equal(set.n, MOST / 2);
	for (size_t i = 0; i < set.n; i++) {
		assert_true(set.sure[i]);
		assert_int_equal(set.place[i]->ino % 2, 0);
	}
	place_set_done(&set);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_replaced_by_a_newer_report),
		cmocka_unit_test(is_full),
		cmocka_unit_test(is_found_after_others_are_gone),
	};

	return cmocka_run_group_tests_name("place_set", tests, NULL, NULL);
}
