/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git's list of packs (multi-pack-index): which files it names. git reads and removes these files, so
 * each has to be in the list's own directory. Pure: reads no file.
 */
#ifndef KODA_WORKER_SCAN_GITPACKS_H
#define KODA_WORKER_SCAN_GITPACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The header and the table of chunks; git itself writes less than ten chunks. */
#define GITPACKS_HEAD_MAX (12 + 256 * 12)
/* Names of packs that are read: those of twenty thousand. */
#define GITPACKS_NAMES_MAX (1u << 20)

/* Finds the names in a list that begins with these bytes. Returns 0, with where they are and how many
 * there have to be, or -1 if it is not a valid list. */
int gitpacks_find(const uint8_t *head, size_t len, uint64_t *ret_at, uint64_t *ret_len,
    uint32_t *ret_n);
/* Are that many names there, none of which leads to another directory? */
bool gitpacks_are_plain(const char *names, size_t len, uint32_t n);

#endif
