/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/tokens.c: tokens: valid once, for a while, and until they are revoked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/tokens.h"
#include "shared/base/cleanup.h"

#define NOW 1000

static const struct {
	const char *label;
	int64_t at;       /* when it is used */
	unsigned times;   /* how often */
	bool revoked;     /* before its use */
	int flip;         /* index of a letter that is changed; -1: none */
	bool good, again; /* the first time, the last time */
} cases[] = {
	/* clang-format off */
	{ "good once",        NOW, 1, false, -1, true, true },
	{ "used twice",       NOW, 2, false, -1, true, false },
	{ "in its last second", NOW + TOKEN_SECONDS - 1, 1, false, -1, true, true },
	{ "too late",         NOW + TOKEN_SECONDS, 1, false, -1, false, false },
	{ "taken back",       NOW, 1, true, -1, false, false },
	{ "wrong at first",   NOW, 1, false, 0, false, false },
	{ "wrong at last",    NOW, 1, false, TOKEN_SECRET_LEN - 1, false, false },
	/* clang-format on */
};

static void
check_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct tokens tokens = { 0 };
	char secret[TOKEN_SECRET_LEN], other[TOKEN_SECRET_LEN];
	uint64_t child = 0;

	assert_true(tokens_make(&tokens, 6, NOW, other));
	assert_true(tokens_make(&tokens, 7, NOW, secret));
	if (cases[i].flip >= 0)
		secret[cases[i].flip] = secret[cases[i].flip] == 'A' ? 'B' : 'A';
	if (cases[i].revoked)
		tokens_revoke(&tokens, 7);
	for (unsigned k = 1; k <= cases[i].times; k++) {
		bool good = tokens_redeem(&tokens, secret, cases[i].at, &child);

		assert_int_equal(good, k < cases[i].times ? cases[i].good : cases[i].again);
	}
	assert_int_equal(child, cases[i].good ? 7 : 0);
	/* In any case the other token is unchanged. */
	assert_true(tokens_redeem(&tokens, other, NOW, &child));
	assert_int_equal(child, 6);
}

/* An unused slot holds no token, not even one of zeros. */
static void
test_nothing_is_none(void **state)
{
	struct tokens tokens = { 0 };
	char secret[TOKEN_SECRET_LEN] = { 0 };
	uint64_t child;

	assert_false(tokens_redeem(&tokens, secret, 0, &child));
}

static void
test_given_back(void **state)
{
	struct tokens tokens = { 0 };
	char secret[TOKEN_SECRET_LEN];
	uint64_t child;

	assert_true(tokens_make(&tokens, 7, NOW, secret));
	assert_false(tokens_give_back(&tokens, 7, NOW)); /* not redeemed yet */
	assert_true(tokens_redeem(&tokens, secret, NOW, &child));
	assert_false(tokens_redeem(&tokens, secret, NOW, &child));
	assert_false(tokens_give_back(&tokens, 6, NOW));
	assert_true(tokens_give_back(&tokens, 7, NOW));
	assert_false(tokens_give_back(&tokens, 7, NOW));
	assert_true(tokens_redeem(&tokens, secret, NOW + TOKEN_SECONDS - 1, &child));
	/* Giving it back does not extend its life. */
	assert_false(tokens_give_back(&tokens, 7, NOW + TOKEN_SECONDS));
	assert_true(tokens_give_back(&tokens, 7, NOW + TOKEN_SECONDS - 1));
	assert_false(tokens_redeem(&tokens, secret, NOW + TOKEN_SECONDS, &child));
	tokens_revoke(&tokens, 7);
	assert_false(tokens_redeem(&tokens, secret, NOW, &child));
	assert_false(tokens_give_back(&tokens, 7, NOW));
}

static void
test_letters(void **state)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t seen[64] = { 0 };

	for (unsigned i = 0; i < 200; i++) {
		struct tokens tokens = { 0 };
		char secret[TOKEN_SECRET_LEN];

		assert_true(tokens_make(&tokens, i, NOW, secret));
		for (size_t k = 0; k < sizeof(secret); k++) {
			const char *at = memchr(digits, secret[k], 64);

			assert_non_null(at);
			seen[at - digits]++;
		}
		/* 32 bytes have 256 bits: the last letter carries four of them. */
		assert_int_equal((strchr(digits, secret[TOKEN_SECRET_LEN - 1]) - digits) % 4, 0);
	}
	for (size_t i = 0; i < 64; i++)
		assert_true(seen[i] > 0);
}

static void
test_too_many(void **state)
{
	struct tokens tokens = { 0 };
	char secret[TOKEN_SECRET_LEN];

	for (unsigned i = 0; i < TOKENS_MAX; i++)
		assert_true(tokens_make(&tokens, i, NOW, secret));
	assert_false(tokens_make(&tokens, 99, NOW, secret));
	tokens_revoke(&tokens, 3);
	assert_true(tokens_make(&tokens, 99, NOW, secret));
	assert_false(tokens_make(&tokens, 99, NOW, secret));
	/* Expired tokens make room by themselves. */
	assert_true(tokens_make(&tokens, 99, NOW + TOKEN_SECONDS, secret));
}

int
main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(test_nothing_is_none),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_letters),
		cmocka_unit_test(test_too_many),
	};
	struct CMUnitTest tests[N_ELEMENTS(cases) + N_ELEMENTS(others)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].label, check_case, NULL, NULL, (void *)i };
	memcpy(tests + N_ELEMENTS(cases), others, sizeof(others));
	return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
