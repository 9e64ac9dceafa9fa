/* What host/protect/quarantine and host/protect/quarantine_look share: the quarantine on disk, found and read. */
#ifndef KODA_HOST_PROTECT_QUARANTINE_H
#define KODA_HOST_PROTECT_QUARANTINE_H

#include <stddef.h>

#include "host/protect/state.h"

#define QUARANTINE_WHAT      "what"
#define QUARANTINE_DEPTH_MAX 256 /* of a tree that is copied, shown or removed: descriptors */

struct manifest {
	char *text; /* "key value" and a NUL, one after the other */
	size_t len;
	const char *path, *rule, *type, *time, *mode, *command;
};
void manifest_done(struct manifest *m);

/* koda's own directory, as long as it is looked into. */
struct store {
	char *path;
	struct state state;
};
void store_done(struct store *s);

/* One thing in it. */
struct quarantine_entry {
	struct store store;
	int dir, fd; /* the quarantine that it is in, and it: O_PATH */
	char *name;  /* there */
	char *root;  /* canonical; NULL: another root was named by its quarantine */
	struct manifest manifest;
};
#define QUARANTINE_ENTRY_NONE                                                                      \
	{                                                                                          \
		.store = { .state = STATE_NONE }, .dir = -1, .fd = -1                              \
	}
void quarantine_entry_done(struct quarantine_entry *e);

/* name, as the list tells it: of the root's quarantine, or "OF/NAME". -1 with *err set. without_record: also what has none. */
int quarantine_find(const char *root, const char *name, bool without_record,
    struct quarantine_entry *ret, struct koda_error *err);
struct koda_quarantined quarantine_tell(const char *of, const char *name, int entry,
    const struct manifest *m);

/* Everything of that name, whatever its modes are; no link is followed. -1 with errno: something is left. */
int quarantine_remove(int dir, const char *name);

#endif
