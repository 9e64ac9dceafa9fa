/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the disk around a place is going to look like: the project, and what a layer of the draft adds
 * to it. A git directory is recognised by its shape, and several changes of one draft can complete
 * that shape together.
 */
#ifndef KODA_WORKER_DRAFT_SHAPE_H
#define KODA_WORKER_DRAFT_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/files/resolve.h"

struct shape {
	const struct resolver *res;
	const char *path; /* of the layer's directory in the project, canonical */
	int fd;           /* O_PATH of the layer's changes */
	bool asked;       /* shape_has() was called */
};

/* For struct access_disk, with a struct shape as data. A name that the draft deletes counts as long as
 * the project has it. */
bool shape_has(void *data, const char *path, size_t dir_len, const char *name);

/* Opens the directory in the layer that has the changes of the project's directory
 * path[0..dir_len), following no link. Returns an O_PATH descriptor, the caller's, or -1 with errno
 * (ENOENT: the layer has nothing there). */
int shape_open(const struct shape *shape, const char *path, size_t dir_len);

#endif
