/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of a journal's file, for journal.c, which writes it, and journal_visit.c, which reads
 * it: the magic bytes, a frame with the Journal, a checksum of all that, then frames with one
 * JournalRecord each.
 */
#ifndef KODA_HOST_PROTECT_JOURNAL_FORMAT_H
#define KODA_HOST_PROTECT_JOURNAL_FORMAT_H

#include <sodium.h>
#include <stdint.h>
#include <string.h>

#include "shared/base/hex.h"

#define JOURNAL_MAGIC      "kodaJ1\n"
#define JOURNAL_MAGIC_LEN  7
#define JOURNAL_SUM_BYTES  16
#define JOURNAL_BYTES_MAX  (32u << 20) /* as many places as a slot has, with long paths */
#define JOURNAL_RECORD_MAX (16u << 10)

/* A name with this prefix is incomplete: no command has run yet. */
#define JOURNAL_NEW_PREFIX ".new-"
/* All other names begin with a hash of the directory, of this many bytes, in hexadecimal. */
#define JOURNAL_HASH_BYTES 8
#define JOURNAL_HASH_SIZE  (2 * JOURNAL_HASH_BYTES + 1)

static inline void
journal_hash(const char *dir, char ret[JOURNAL_HASH_SIZE])
{
	uint8_t hash[crypto_generichash_BYTES];

	crypto_generichash(hash, sizeof(hash), (const uint8_t *)dir, strlen(dir), NULL, 0);
	hex_put(ret, hash, JOURNAL_HASH_BYTES);
}

#endif
