/*
 * Something new under a temporary name beside the place that it is for, complete before anybody sees it
 * there: a file, a directory, or a file or directory in directories that were missing. Acts on the place's
 * descriptors only; decides nothing and tells nobody.
 */
#ifndef KODA_WORKER_FILES_REPLACE_H
#define KODA_WORKER_FILES_REPLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "shared/wire/protocol.h"
#include "worker/files/resolve.h"

/* What a file is to contain. */
struct content {
	const uint8_t *data;
	size_t len;
	int fd; /* a memfd sealed against every change, instead of data; else -1 */
};

struct stage {
	const struct place *at; /* what it is for; parent_fd is where it is made */
	char temp[TEMP_NAME_SIZE];
	bool made; /* the temporary name is ours to remove */
	dev_t dev; /* of what has it */
	ino_t ino;
	int sync_fd; /* durable: the directory that is to be synced after the rename */
};

#define STAGE_EMPTY                                                                                \
	{                                                                                          \
		.sync_fd = -1                                                                      \
	}

struct stage_how {
	mode_t umask;
	bool durable;
};

void temp_name(char ret[TEMP_NAME_SIZE], const uint8_t token[TOKEN_BYTES], uint64_t id);

/*
 * Make it. content NULL: a directory. When at->target_fd is a file, its mode, owner and attributes are
 * handed on; otherwise the mode is 0666 or 0777 less umask. -1 with *err set and nothing left behind.
 */
int stage_make(struct stage *s, const struct place *at, const uint8_t token[TOKEN_BYTES],
    uint64_t id, const struct content *content, const struct stage_how *how,
    struct koda_error *err);

/*
 * Give it its name. exclusive: only if nothing has it. Returns 0; 1 when exclusive and somebody was faster;
 * -1 with *err set. The temporary name is gone in the first case only.
 */
int stage_commit(struct stage *s, bool exclusive, struct koda_error *err);

/* Sync the directory that got the new name, if durable was asked for. -1 with errno. */
int stage_sync(struct stage *s);

/* Remove what did not get its name. */
void stage_done(struct stage *s);

/* Is that a memfd that nobody can change any more? Its size, or -1 with *err set. */
int64_t content_check_fd(int fd, struct koda_error *err);

#endif
