/* SPDX-License-Identifier: Apache-2.0 */
/* Opens names in the upper tree of a draft, never through a link. */
#ifndef KODA_WORKER_DRAFT_UPPER_FILE_H
#define KODA_WORKER_DRAFT_UPPER_FILE_H

#include "shared/wire/protocol.h"
#include "worker/draft/upper.h"
#include "worker/session.h"

/* A regular file of a draft. */
struct upper_file {
	char path[PATH_LEN_MAX + 1]; /* below the layer */
	const char *name;            /* its last part */
	int dir;                     /* O_PATH */
	int fd;                      /* O_PATH */
	struct upper up;
	struct stat st; /* of fd */
};
#define UPPER_FILE_CLOSED                                                                          \
	{                                                                                          \
		.dir = -1, .fd = -1                                                                \
	}

/* Opens the regular file of the draft that is at the path, which is below the layer. Returns 0, or -1
 * with *err set. Call upper_file_done() in either case. */
int upper_file_open(struct session *ses, const struct draft_layer *l, const char *path,
    struct upper_file *ret, struct koda_error *err);
void upper_file_done(struct upper_file *f);

#endif
