/* SPDX-License-Identifier: Apache-2.0 */
/* The file of an audit log: opened where the processes that the log watches cannot reach it, and
 * read from its end and from its beginning. */
#ifndef KODA_MCP_AUDIT_FILE_H
#define KODA_MCP_AUDIT_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "mcp/audit_line.h"

/* Opens the file for appending, with an exclusive flock. audit.h lists what is refused. Returns
 * the descriptor, or -1 with *err set. */
int audit_file_open(const char *path, const char *const *places, size_t n_places,
    struct koda_error *err);

struct audit_tail {
	uint64_t seq; /* of the last whole line; 0: there is none */
	uint8_t head[KODA_DIGEST_BYTES];
	bool torn, newline; /* as in struct audit */
};
/* Returns 0, or -1: then *ret_why is part of a sentence, or NULL if the file could not be read,
 * with errno set. */
int audit_file_tail(int fd, off_t size, struct audit_tail *ret, const char **ret_why);

/* Called for each line, without its newline; whole says whether it had one. A non-zero return
 * stops the reading. */
typedef int audit_line_fn(void *data, const char *line, size_t len, bool whole);
/* Returns 0, 1 if fn stopped it, or -1 with *err set. */
int audit_file_lines(const char *path, audit_line_fn *fn, void *data, struct koda_error *err);

#endif
