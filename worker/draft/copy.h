/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what has a name to a name on another file system: a file, a link, or a directory with
 * everything in it. Content, permissions, times of content, attributes and, as far as the kernel lets
 * us, the owner; never capabilities. Names of one file become files of their own.
 */
#ifndef KODA_WORKER_DRAFT_COPY_H
#define KODA_WORKER_DRAFT_COPY_H

#include <stdint.h>

#include "worker/files/resolve.h"

struct copy {
	const struct resolver *res;
	uint64_t entries, bytes; /* in directories, so far */
	bool changed;            /* something was changed while it was copied */
};

/* Makes `to`, which must not exist, in to_dir. Returns 0, or -1 with errno; then a part of it may be
 * there. errno EFBIG: more than SWAP_COPY_ENTRIES_MAX or SWAP_COPY_BYTES_MAX in directories, or deeper
 * than SWAP_COPY_DEPTH_MAX; EOPNOTSUPP: something in it is neither a file, a link nor a directory. */
int copy_name(struct copy *c, int from_dir, const char *from, int to_dir, const char *to);

/* Would copy_name() accept it? Returns 0, or -1 with errno. */
int copy_measure(struct copy *c, int from_dir, const char *from);

#endif
