/*
 * git's index: which paths it says are repositories of their own, and which it hides from a person who asks git what has
 * changed. Pure: reads no file. Versions 2 to 4, both lengths of object names, and never more lenient than git: what has
 * two readings (an extension that says where entries begin, say) is no index here.
 */
#ifndef KODA_WORKER_SCAN_GITINDEX_H
#define KODA_WORKER_SCAN_GITINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An index of two million files; a larger one is not read. */
#define GITINDEX_BYTES_MAX (256u << 20)

/* The longest name of an object, in bytes. */
#define GITINDEX_OBJECT_MAX 32

struct gitindex_entry {
	const char *path; /* ended by a NUL; "" of an entry that stands for one of a shared index */
	size_t len;
	const uint8_t *object; /* its name: what checkout would write there */
	size_t object_len;
	bool link; /* another repository is there */
	bool
	    hidden; /* assume-unchanged or skip-worktree: git does not look whether it was changed */
};

typedef void gitindex_fn(void *data, const struct gitindex_entry *entry);

/* The file beside it that has the rest of the entries: sharedindex.<name in hex>. */
struct gitindex_base {
	const uint8_t *name;
	size_t len; /* 0: there is none */
};

/* Calls fn for each entry, in order, once all of it has been found to make sense. ret_base may be NULL. 0, or -1. */
int gitindex_parse(const uint8_t *text, size_t len, gitindex_fn *fn, void *data,
    struct gitindex_base *ret_base);

#endif
