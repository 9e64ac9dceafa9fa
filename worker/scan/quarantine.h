/*
 * What a command planted goes away from its name and is kept: the form on disk is in docs/PROTOCOL.md. The quarantine
 * may be on another file system (in a slot's view it is always another mount), so things are first renamed where they
 * are, which takes the harm away at once, and then copied.
 */
#ifndef KODA_WORKER_SCAN_QUARANTINE_H
#define KODA_WORKER_SCAN_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/wire/protocol.h"

/* Of one thing that is copied; a command that plants more keeps it, under a harmless name. */
#define QUARANTINE_BYTES_MAX (64u << 20)
#define QUARANTINE_NAMES_MAX 10000
/* Of a name in it, with the NUL. */
#define QUARANTINE_NAME_SIZE 40

struct quarantine {
	int fd; /* the directory, O_PATH; -1: there is none */
	const uint8_t *token;
	unsigned serial;
	unsigned left; /* so many more are kept; beyond that things are only renamed */
	char *command; /* that is probably to blame, for the record; NULL: nobody knows */
};

struct quarantined {
	char name[QUARANTINE_NAME_SIZE]; /* below the quarantine; "" if nothing is there */
	char aside[TEMP_NAME_SIZE + 8];  /* what it is called now where it was; "" if it is gone */
};

/*
 * Take away what has that name in dir_fd, if it is what was seen (dev:ino, without following a link); path and rule
 * are for the record. 0; 1 when something else has the name by now (look again); -1 with errno: it is still there.
 */
int quarantine_move(struct quarantine *q, int dir_fd, const char *name, const char *path,
    const char *rule, const struct stat *seen, struct quarantined *ret);

/* Keep these bytes as the file that was at path. -1 with errno: nothing is kept. */
int quarantine_keep(struct quarantine *q, const char *path, const char *rule, mode_t mode,
    const void *data, size_t len, struct quarantined *ret);

/* A name that nobody else has by accident, for what is to have another one soon. */
void quarantine_temp_name(struct quarantine *q, char *ret, size_t size);
/* Create a file of such a name in dir_fd, open for writing. The descriptor, or -1 with errno. */
int quarantine_temp_file(struct quarantine *q, int dir_fd, char *ret, size_t size);

#endif
