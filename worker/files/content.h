/* SPDX-License-Identifier: Apache-2.0 */
/* Answering with the content of a file: in the frame if it is small, as a descriptor if not. */
#ifndef KODA_WORKER_FILES_CONTENT_H
#define KODA_WORKER_FILES_CONTENT_H

#include "worker/session.h"

struct content_range {
	uint64_t offset;
	uint64_t max; /* 0: all */
	bool digest;  /* of the whole file, too */
};

/*
 * Sets *rep to a ReadReply with the content of the file at fd, which has that size and is open for
 * reading. Takes fd over. path is kept until the reply is packed. Returns 0, or -1 with *err set.
 */
int content_reply(struct session *ses, int fd, const char *path, uint64_t size,
    const struct content_range *range, Koda__Reply *rep, struct koda_error *err);

#endif
