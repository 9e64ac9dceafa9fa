/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ticket (host/approve/ticket.c) finds its question until the question is over, and nothing ever
 * after, whatever other questions come and go in this or another thread.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/approve/ticket.h"

#define MANY    1000
#define THREADS 8

/* Tickets say nothing about questions: any address will do. */
static char place[MANY];

static struct asked *
question(size_t i)
{
	return (struct asked *)(void *)&place[i];
}

static void
found_until_it_ends(void **state)
{
	struct koda_approval *one = ticket_issue(question(0)), *two = ticket_issue(question(1));

	assert_non_null(one);
	assert_non_null(two);
	assert_ptr_not_equal(one, two);
	assert_ptr_equal(ticket_find(one), question(0));
	assert_ptr_equal(ticket_find(two), question(1));
	ticket_end(one);
	assert_null(ticket_find(one));
	assert_ptr_equal(ticket_find(two), question(1));
	ticket_end(one); /* has no effect */
	ticket_end(two);
	assert_null(ticket_find(two));
}

static void
never_issued(void **state)
{
	struct koda_approval *one = ticket_issue(question(0));

	assert_null(ticket_find(NULL));
	ticket_end(NULL);
	assert_null(ticket_find((struct koda_approval *)UINTPTR_MAX));
	assert_null(ticket_find((struct koda_approval *)(void *)place));
	assert_null(ticket_find((struct koda_approval *)((uintptr_t)one + 1)));
	assert_ptr_equal(ticket_find(one), question(0));
	ticket_end(one);
}

static void
never_used_twice(void **state)
{
	static struct koda_approval *old[MANY];

	for (size_t i = 0; i < MANY; i++) {
		old[i] = ticket_issue(question(0));
		assert_non_null(old[i]);
		for (size_t j = 0; j < i; j++)
			assert_ptr_not_equal(old[i], old[j]);
		ticket_end(old[i]);
	}
	for (size_t i = 0; i < MANY; i++)
		assert_null(ticket_find(old[i]));
}

static void
many_at_once(void **state)
{
	static struct koda_approval *open[MANY];

	for (size_t i = 0; i < MANY; i++) {
		open[i] = ticket_issue(question(i));
		assert_non_null(open[i]);
	}
	for (size_t i = 0; i < MANY; i += 2)
		ticket_end(open[i]);
	for (size_t i = 0; i < MANY; i++)
		assert_ptr_equal(ticket_find(open[i]), i % 2 == 0 ? NULL : question(i));
	for (size_t i = 1; i < MANY; i += 2)
		ticket_end(open[i]);
}

/* Returns NULL if all was well. */
static void *
come_and_go(void *data)
{
	struct asked *mine = data;

	for (int i = 0; i < 20000; i++) {
		struct koda_approval *one = ticket_issue(mine), *two = ticket_issue(mine);

		if (one == NULL || one == two || ticket_find(one) != mine ||
		    ticket_find(two) != mine)
			return data;
		ticket_end(one);
		if (ticket_find(one) != NULL || ticket_find(two) != mine)
			return data;
		ticket_end(two);
	}
	return NULL;
}

static void
several_threads(void **state)
{
	pthread_t thread[THREADS];
	void *bad;

	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, question(i)), 0);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], &bad), 0);
		assert_null(bad);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_until_it_ends),
		cmocka_unit_test(never_issued),
		cmocka_unit_test(never_used_twice),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(several_threads),
	};

	return cmocka_run_group_tests_name("ticket", tests, NULL, NULL);
}
