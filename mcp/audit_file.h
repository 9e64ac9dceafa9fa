/* The file of an audit log: opened where nobody who is watched by it can reach it, read from its end and from its
 * beginning. */
#ifndef KODA_MCP_AUDIT_FILE_H
#define KODA_MCP_AUDIT_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "mcp/audit_line.h"

/* Open it to append, alone (flock). What is refused is said in audit.h. -1 with *err set. */
int audit_file_open(const char *path, const char *const *places, size_t n_places,
    struct koda_error *err);

struct audit_tail {
	uint64_t seq; /* of the last whole line, 0: there is none */
	uint8_t head[KODA_DIGEST_BYTES];
	bool torn, newline; /* as in struct audit */
};
/* 0, or -1: *ret_why is half a sentence, or NULL and errno says why it could not be read. */
int audit_file_tail(int fd, off_t size, struct audit_tail *ret, const char **ret_why);

/* Each line without its newline; whole: it had one. Returning non-zero stops. */
typedef int audit_line_fn(void *data, const char *line, size_t len, bool whole);
/* 0, 1 when fn stopped it, or -1 with *err set. */
int audit_file_lines(const char *path, audit_line_fn *fn, void *data, struct koda_error *err);

#endif
