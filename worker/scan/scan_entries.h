/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one directory and decides what each of its entries means: a place to judge, a directory to
 * read next, or nothing. The kind of the directory itself is known only when all names in it are,
 * so entries that may matter wait until then.
 */
#ifndef KODA_WORKER_SCAN_SCAN_ENTRIES_H
#define KODA_WORKER_SCAN_SCAN_ENTRIES_H

#include "worker/scan/scan_state.h"

/* Read the directory behind fd and have what matters in it judged. path[0..len) is its canonical
 * path and has room for PATH_LEN_MAX bytes. descend: add the directories in it as steps. -1: no
 * memory. */
int entries_read(struct scan *sc, uint32_t idx, int fd, char *path, size_t len, bool descend);

#endif
