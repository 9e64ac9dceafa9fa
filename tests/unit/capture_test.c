/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/command/capture.c: head, tail and the number of bytes between them, for input in any
 * pieces.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/command/capture.h"
#include "shared/base/cleanup.h"

static const struct {
	const char *label;
	uint64_t max;
	size_t total, piece;
} cases[] = {
	{ "nothing", 1024, 0, 1 },
	{ "a byte", 1024, 1, 1 },
	{ "just fits", 1024, 1024, 100 },
	{ "one too many", 1024, 1025, 100 },
	{ "odd bound", 1025, 4000, 77 },
	{ "bound of one", 1, 1000, 13 },
	{ "bound of nothing", 0, 1000, 13 },
	{ "pages", 16384, 60000, 4096 },
	{ "byte by byte", 64, 1000, 1 },
	{ "around often", 100, 100000, 999 },
	{ "more than at once", 2u << 20, 9u << 20, 65536 },
};

static uint8_t
byte_at(size_t i)
{
	return (uint8_t)(i * 31 + i / 251);
}

static void
check(const struct koda_output *o, uint64_t max, size_t total)
{
	size_t kept = total < max ? total : (size_t)max;

	assert_int_equal(o->total, total);
	assert_int_equal(o->head_len + o->tail_len, kept);
	assert_int_equal(o->left_out, total - kept);
	for (size_t i = 0; i < o->head_len; i++)
		if ((uint8_t)o->head[i] != byte_at(i))
			fail_msg("head differs at %zu", i);
	for (size_t i = 0; i < o->tail_len; i++)
		if ((uint8_t)o->tail[i] != byte_at(total - o->tail_len + i))
			fail_msg("tail differs at %zu of %zu", i, o->tail_len);
	/* Split in halves: neither the beginning nor the end is lost. */
	if (total > max)
		assert_int_equal(o->head_len, max / 2);
}

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state, sent = 0;
	cleanup_close int to = -1;
	cleanup_free uint8_t *piece = malloc(cases[i].piece);
	struct koda_output o;
	struct capture c;
	struct koda_error err;

	assert_non_null(piece);
	assert_int_equal(capture_open(&c, cases[i].max, &to, &err), 0);
	while (sent < cases[i].total) {
		size_t n =
		    cases[i].total - sent < cases[i].piece ? cases[i].total - sent : cases[i].piece;
		for (size_t k = 0; k < n; k++)
			piece[k] = byte_at(sent + k);
		for (size_t k = 0; k < n;) {
			ssize_t w = write(to, piece + k, n - k);

			assert_true(w > 0);
			k += (size_t)w;
			assert_true(capture_read(&c));
		}
		sent += n;
		/* capture_get() may be called at any time and changes nothing. */
		if (sent < 4 * cases[i].max) {
			capture_get(&c, &o);
			check(&o, cases[i].max, sent);
		}
	}
	close_at(&to);
	to = -1;
	while (capture_read(&c))
		;
	assert_int_equal(c.fd, -1);
	capture_get(&c, &o);
	check(&o, cases[i].max, cases[i].total);
	assert_true(c.head_size + c.ring_size <= cases[i].max);
	capture_done(&c);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL,
			(void *)(uintptr_t)i };
	return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
