/*
 * The format of a journal's file, for journal.c, which writes it, and journal_visit.c, which reads
 * it: the magic bytes, a frame with the Journal, a checksum of all that, then frames with one
 * JournalRecord each. A frame is its length in four bytes and that many bytes.
 */
#ifndef KODA_HOST_PROTECT_JOURNAL_FORMAT_H
#define KODA_HOST_PROTECT_JOURNAL_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_MAGIC      "kodaJ1\n"
#define JOURNAL_MAGIC_LEN  7
#define JOURNAL_HEADER     4
#define JOURNAL_SUM_BYTES  16
#define JOURNAL_BYTES_MAX  (32u << 20) /* as many places as a slot has, with long paths */
#define JOURNAL_RECORD_MAX (16u << 10)

/* A name with this prefix is incomplete: no command has run yet. */
#define JOURNAL_NEW_PREFIX ".new-"
/* All other names begin with a hash of the directory, of this many bytes, in hexadecimal. */
#define JOURNAL_HASH_BYTES 8

static inline void
journal_put_length(uint8_t *to, size_t len)
{
	for (int i = 0; i < JOURNAL_HEADER; i++)
		to[i] = (uint8_t)(len >> (24 - 8 * i));
}

static inline size_t
journal_get_length(const uint8_t *from)
{
	return (size_t)from[0] << 24 | (size_t)from[1] << 16 | (size_t)from[2] << 8 | from[3];
}

#endif
