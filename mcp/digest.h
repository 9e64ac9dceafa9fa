/*
 * BLAKE2b, for the audit log. The one file here that sees libsodium: the public header has no hash, and a log that is
 * to convict somebody wants no hash of our own making. tools/check-includes knows it by name.
 */
#ifndef KODA_MCP_DIGEST_H
#define KODA_MCP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

#define DIGEST_HEX_SIZE (2 * KODA_DIGEST_BYTES + 1)

/* Of n pieces, one behind the other. */
struct digest_piece {
	const void *data;
	size_t len;
};
void digest_pieces(const struct digest_piece *pieces, size_t n, uint8_t ret[KODA_DIGEST_BYTES]);
void digest_bytes(const void *data, size_t len, uint8_t ret[KODA_DIGEST_BYTES]);

/* Lower case, with a NUL behind it. */
void digest_hex(const uint8_t *data, size_t len, char *ret);
/* Exactly 2 * len digits in lower case, as digest_hex() writes them: one text means one value. */
bool digest_parse(const char *text, uint8_t *ret, size_t len);

/* How long it takes does not tell where two secrets differ. */
bool digest_same_secret(const void *a, const void *b, size_t len);

#endif
