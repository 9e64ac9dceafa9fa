/* SPDX-License-Identifier: Apache-2.0 */
/* The issued tokens: each is made for a child, and good once and for a while. Pure except for
 * the random bytes. */
#ifndef KODA_MCP_TOKENS_H
#define KODA_MCP_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a person or a program has to start the child with it. */
#define TOKEN_SECONDS 300
/* Children that were opened and have not come yet. A client that opens more is in a loop. */
#define TOKENS_MAX 64
/* 32 random bytes in base64url: nothing in it needs quoting in a shell. */
#define TOKEN_SECRET_LEN 43

/* Zero-initialise. */
struct tokens {
	struct token {
		bool used;  /* this entry is in use */
		bool taken; /* a client has come with it */
		uint64_t child;
		int64_t until;
		char secret[TOKEN_SECRET_LEN];
	} all[TOKENS_MAX];
};

/* Makes a token for the child. now is in seconds of a clock that does not go back. Returns false
 * if there are too many. */
bool tokens_make(struct tokens *tokens, uint64_t child, int64_t now, char ret[TOKEN_SECRET_LEN]);
/* Redeems a token and returns its child in *ret_child; after that it is worthless. The time that
 * an invalid token takes reveals nothing about the valid ones. */
bool tokens_redeem(struct tokens *tokens, const char secret[TOKEN_SECRET_LEN], int64_t now,
    uint64_t *ret_child);
/* Makes the child's token good again, until its original deadline, because its client did
 * nothing. Returns false if the deadline has passed. */
bool tokens_give_back(struct tokens *tokens, uint64_t child, int64_t now);
/* Makes the child's token worthless. */
void tokens_revoke(struct tokens *tokens, uint64_t child);

#endif
