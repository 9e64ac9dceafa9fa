/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads git's index: which paths are repositories of their own, and which entries git hides from a
 * user who asks what has changed. Pure: reads no file. Supports versions 2 to 4 and both lengths of
 * object names, and is never more lenient than git: text with two readings (an extension that says
 * where entries begin, for example) is not an index here.
 */
#ifndef KODA_WORKER_SCAN_GITINDEX_H
#define KODA_WORKER_SCAN_GITINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for two million files. A larger index is not read. */
#define GITINDEX_BYTES_MAX (256u << 20)

/* The longest name of an object, in bytes. */
#define GITINDEX_OBJECT_MAX 32

struct gitindex_entry {
	/* Ends with a NUL. "" for an entry that replaces one of a shared index. */
	const char *path;
	size_t len;
	const uint8_t *object; /* object name of the content that checkout would write there */
	size_t object_len;
	bool link; /* the path is another repository */
	/* assume-unchanged or skip-worktree: git does not check whether the file was changed. */
	bool hidden;
};

typedef void gitindex_fn(void *data, const struct gitindex_entry *entry);

/* The file next to the index that has the rest of the entries: sharedindex.<name in hex>. */
struct gitindex_base {
	const uint8_t *name;
	size_t len; /* 0: none */
};

/* Calls fn for each entry, in order, after the whole index was found valid. ret_base may be NULL.
 * Returns 0, or -1 if it is not a valid index. */
int gitindex_parse(const uint8_t *text, size_t len, gitindex_fn *fn, void *data,
    struct gitindex_base *ret_base);

#endif
