/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by host/protect/quarantine and host/protect/quarantine_look: finding and reading the
 * quarantine on disk. */
#ifndef KODA_HOST_PROTECT_QUARANTINE_H
#define KODA_HOST_PROTECT_QUARANTINE_H

#include <stddef.h>

#include "host/machine/state.h"

#define QUARANTINE_WHAT "what"
/* Limit for a tree that is copied, shown or removed: each level takes a descriptor. */
#define QUARANTINE_DEPTH_MAX 256

struct manifest {
	char *text; /* each record is "key value" and a NUL */
	size_t len;
	const char *path, *rule, *type, *time, *mode, *command;
};

/* koda's state directory, held while it is read. */
struct store {
	char *path;
	struct state state;
};

/* One thing in the quarantine. */
struct quarantine_entry {
	struct store store;
	int dir, fd; /* O_PATH: the quarantine that holds it, and its own directory */
	char *name;  /* its name there */
	/* Canonical. NULL if the name gave the quarantine, which may be of another root. */
	char *root;
	struct manifest manifest;
};
#define QUARANTINE_ENTRY_NONE                                                                      \
	{                                                                                          \
		.store = { .state = STATE_NONE }, .dir = -1, .fd = -1                              \
	}
void quarantine_entry_done(struct quarantine_entry *e);

/* Finds a thing by its name as listed: in the root's quarantine, or "OF/NAME". Returns 0, or -1
 * with *err set. without_record: also find one without a valid record. */
int quarantine_find(const char *root, const char *name, bool without_record,
    struct quarantine_entry *ret, struct koda_error *err);
struct koda_quarantined quarantine_tell(const char *of, const char *name, int entry,
    const struct manifest *m);

/* Removes everything of that name, whatever its modes; follows no link. Returns 0, or -1 with errno
 * if something is left. */
int quarantine_remove(int dir, const char *name);

#endif
