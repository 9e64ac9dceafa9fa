/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a file or directory under a temporary name beside its place, complete before it appears
 * there; also inside parent directories that were missing. Acts only on the place's descriptors;
 * decides nothing and reports nothing.
 */
#ifndef KODA_WORKER_FILES_REPLACE_H
#define KODA_WORKER_FILES_REPLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "shared/wire/protocol.h"
#include "worker/files/resolve.h"

/* The content of a new file. */
struct file_content {
	const uint8_t *data;
	size_t len;
	int fd; /* used instead of data: a memfd sealed against every change; else -1 */
};

struct stage {
	const struct place *at; /* the place it is for; it is made in parent_fd */
	char temp[TEMP_NAME_SIZE];
	bool made; /* the temporary name exists and has to be removed */
	dev_t dev; /* of the file that has the temporary name */
	ino_t ino;
	int sync_fd; /* durable: the directory to sync after the rename */
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
 * Makes the temporary file or directory. content NULL: a directory. If at->target_fd is a file, its
 * mode, owner and attributes are kept; otherwise the mode is 0666 or 0777 minus the umask. Returns
 * 0, or -1 with *err set and nothing left behind.
 */
int stage_make(struct stage *s, const struct place *at, const uint8_t token[TOKEN_BYTES],
    uint64_t id, const struct file_content *content, const struct stage_how *how,
    struct koda_error *err);

/*
 * Renames it into place. exclusive: only if nothing has that name. Returns 0; 1 if exclusive and
 * the name exists; -1 with *err set. The temporary name is gone only if 0 is returned.
 */
int stage_commit(struct stage *s, bool exclusive, struct koda_error *err);

/* Syncs the directory of the new name, if durable was requested. Returns 0, or -1 with errno. */
int stage_sync(struct stage *s);

/* Removes the temporary file, if it was not renamed into place. */
void stage_done(struct stage *s);

/*
 * For copies of existing files. file_copy() copies the first len bytes, and leaves holes out.
 * file_dress() gives fd the attributes, the permissions and, as far as the kernel lets us, the owner of
 * the file like_fd (O_PATH), whose state is *like; file_copy_attributes() only the attributes, without
 * capabilities.
 * They return 0, or -1 with errno.
 */
int file_copy(int to, int from, size_t len);
int file_dress(int fd, int like_fd, const struct stat *like);
int file_copy_attributes(int to, int from_fd);

/* Checks that fd is a memfd sealed against every change. Returns its size, or -1 with *err set. */
int64_t content_check_fd(int fd, struct koda_error *err);

#endif
