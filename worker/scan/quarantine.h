/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves what a command planted away from its name and keeps it; docs/PROTOCOL.md describes the form
 * on disk. The quarantine may be on another file system (in a slot's view it is always another
 * mount), so things are first renamed in place, which removes the harm at once, and then copied.
 */
#ifndef KODA_WORKER_SCAN_QUARANTINE_H
#define KODA_WORKER_SCAN_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/wire/protocol.h"

/* Limits for one thing that is copied. Anything larger stays where it is, under a harmless name. */
#define QUARANTINE_BYTES_MAX (64u << 20)
#define QUARANTINE_NAMES_MAX 10000
/* Size of a name in the quarantine, with the NUL. */
#define QUARANTINE_NAME_SIZE 40

struct quarantine {
	int fd; /* the directory, O_PATH; -1: none */
	const uint8_t *token;
	unsigned serial;
	/* How many more things may be kept. After that, things are only renamed. */
	unsigned left;
	/* The command that is probably to blame, for the record. NULL: unknown. */
	char *command;
};

struct quarantined {
	/* Name below the quarantine, "" if nothing was kept. */
	char name[QUARANTINE_NAME_SIZE];
	/* Its new name in the old directory, "" if it is gone. */
	char aside[TEMP_NAME_SIZE + 8];
};

/*
 * Take away the object with that name in dir_fd, if it is the one in `seen` (dev:ino, without
 * following a link). path and rule are for the record. Returns 0; 1 if the name now belongs to
 * another object (check again); -1 with errno if it is still there.
 */
int quarantine_move(struct quarantine *q, int dir_fd, const char *name, const char *path,
    const char *rule, const struct stat *seen, struct quarantined *ret);

/* Keep these bytes as the file that was at path. Returns 0, or -1 with errno if nothing is kept. */
int quarantine_keep(struct quarantine *q, const char *path, const char *rule, mode_t mode,
    const void *data, size_t len, struct quarantined *ret);

/* Create a file in dir_fd that will be renamed soon, with a name that is not in use. Returns a
 * descriptor open for writing, or -1 with errno. */
int quarantine_temp_file(struct quarantine *q, int dir_fd, char *ret, size_t size);

#endif
