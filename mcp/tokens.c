/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tokens.h"

#include <string.h>

#include "mcp/digest.h"
#include "mcp/runtime.h"

#define SECRET_BYTES 32

static void
forget(struct token *token)
{
	explicit_bzero(token, sizeof(*token));
}

/* Six bits per letter; the bits after the last byte are zero. */
static void
make_secret(char ret[TOKEN_SECRET_LEN])
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint8_t random[SECRET_BYTES + 2] = { 0 };

	runtime_random(random, SECRET_BYTES);
	for (size_t i = 0; i < TOKEN_SECRET_LEN; i++) {
		size_t bit = 6 * i;
		unsigned two = (unsigned)random[bit / 8] << 8 | random[bit / 8 + 1];

		ret[i] = digits[two >> (10 - bit % 8) & 63];
	}
	explicit_bzero(random, sizeof(random));
}

bool
tokens_make(struct tokens *tokens, uint64_t child, int64_t now, char ret[TOKEN_SECRET_LEN])
{
	struct token *token = NULL;

	for (size_t i = 0; i < TOKENS_MAX; i++) {
		if (tokens->all[i].used && tokens->all[i].until <= now)
			forget(&tokens->all[i]);
		if (!tokens->all[i].used)
			token = &tokens->all[i];
	}
	if (token == NULL)
		return false;
	*token = (struct token){ .used = true, .child = child, .until = now + TOKEN_SECONDS };
	make_secret(token->secret);
	memcpy(ret, token->secret, TOKEN_SECRET_LEN);
	return true;
}

bool
tokens_redeem(struct tokens *tokens, const char secret[TOKEN_SECRET_LEN], int64_t now,
    uint64_t *ret_child)
{
	struct token *found = NULL;

	/* Compares with all tokens, each in full, so that timing reveals nothing. */
	for (size_t i = 0; i < TOKENS_MAX; i++) {
		struct token *token = &tokens->all[i];
		bool same = digest_same_secret(token->secret, secret, TOKEN_SECRET_LEN);

		if (same && token->used && !token->taken && token->until > now)
			found = token;
	}
	if (found == NULL)
		return false;
	*ret_child = found->child;
	found->taken = true;
	return true;
}

bool
tokens_give_back(struct tokens *tokens, uint64_t child, int64_t now)
{
	for (size_t i = 0; i < TOKENS_MAX; i++) {
		struct token *token = &tokens->all[i];

		if (token->used && token->taken && token->child == child && token->until > now) {
			token->taken = false;
			return true;
		}
	}
	return false;
}

void
tokens_revoke(struct tokens *tokens, uint64_t child)
{
	for (size_t i = 0; i < TOKENS_MAX; i++) {
		if (tokens->all[i].used && tokens->all[i].child == child)
			forget(&tokens->all[i]);
	}
}
