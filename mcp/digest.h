/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE2b, for the audit log. The only file here that uses libsodium: the public header has no
 * hash, and a log that serves as evidence should not rely on a hash of our own making.
 * tools/check-includes knows this file by name.
 */
#ifndef KODA_MCP_DIGEST_H
#define KODA_MCP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

#define DIGEST_HEX_SIZE (2 * KODA_DIGEST_BYTES + 1)

/* The digest of n pieces, one after the other. */
struct digest_piece {
	const void *data;
	size_t len;
};
void digest_pieces(const struct digest_piece *pieces, size_t n, uint8_t ret[KODA_DIGEST_BYTES]);
void digest_bytes(const void *data, size_t len, uint8_t ret[KODA_DIGEST_BYTES]);

/* Writes lower-case digits and a NUL. */
void digest_hex(const uint8_t *data, size_t len, char *ret);
/* Accepts exactly 2 * len lower-case digits, as digest_hex() writes them, so that each value has
 * one text only. */
bool digest_parse(const char *text, uint8_t *ret, size_t len);

/* Compares two secrets in a time that does not depend on where they differ. */
bool digest_same_secret(const void *a, const void *b, size_t len);

#endif
