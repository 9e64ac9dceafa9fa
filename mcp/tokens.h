/* The tokens that are out: made for a child, good once and for a while. Pure but for the random bytes. */
#ifndef KODA_MCP_TOKENS_H
#define KODA_MCP_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a person, or a program, has to start the child with it. */
#define TOKEN_SECONDS 300
/* Children that were opened and have not come. Who opens more is in a loop. */
#define TOKENS_MAX 64
/* 32 random bytes in base64url: nothing in it needs quoting in a shell. */
#define TOKEN_SECRET_LEN 43

/* Zero-initialise. */
struct tokens {
	struct token {
		bool used;  /* this place is */
		bool taken; /* somebody has come with it */
		uint64_t child;
		int64_t until;
		char secret[TOKEN_SECRET_LEN];
	} all[TOKENS_MAX];
};

/* One for the child; now: seconds of some clock that does not go back. False: there are too many. */
bool tokens_make(struct tokens *tokens, uint64_t child, int64_t now, char ret[TOKEN_SECRET_LEN]);
/* Whose it is; after that it is good for nobody. How long a false one takes tells nothing about the true ones. */
bool tokens_redeem(struct tokens *tokens, const char secret[TOKEN_SECRET_LEN], int64_t now,
    uint64_t *ret_child);
/* Who came with the child's did nothing with it: it is good again, for as long as it would have been. False: that is over. */
bool tokens_give_back(struct tokens *tokens, uint64_t child, int64_t now);
/* The child's is worth nothing any more. */
void tokens_revoke(struct tokens *tokens, uint64_t child);

#endif
