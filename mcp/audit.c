/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcp/audit_file.h"
#include "mcp/digest.h"
#include "mcp/fault.h"
#include "shared/base/clock.h"

struct audit {
	int fd;
	char *path;                      /* as it was given, for messages */
	uint64_t seq;                    /* of the last whole line */
	uint8_t head[KODA_DIGEST_BYTES]; /* the prev of the next line */
	bool torn;                       /* the last line is torn */
	bool newline;                    /* the last line has no newline yet */
	uint64_t lost;
	/* There is no other writer: a different size means that another process changed the
	 * file. */
	off_t size;
	char line[1 + AUDIT_LINE_MAX];
};

static void
audit_free(struct audit *audit)
{
	if (audit == NULL)
		return;
	if (audit->fd >= 0)
		close(audit->fd); /* releases the lock */
	free(audit->path);
	free(audit);
}

/* Detects at once, not only at the end, that the log was cut, extended, removed or linked while
 * it is written. */
static int
look(struct audit *audit, struct koda_error *err)
{
	struct stat st;

	if (fstat(audit->fd, &st) < 0)
		return fault_set(err, KODA_IO, errno, "check the audit log '%s'", audit->path);
	if (st.st_nlink != 1)
		return fault_set(err, KODA_IO, 0,
		    "the audit log '%s' was removed, or got a second name, while the server was writing it",
		    audit->path);
	if (st.st_size != audit->size)
		return fault_set(err, KODA_IO, 0,
		    "another process changed the audit log '%s' while the server was writing it",
		    audit->path);
	return 0;
}

static int
append(struct audit *audit, enum audit_kind kind, uint64_t of, const struct audit_action *action,
    struct koda_error *err)
{
	struct audit_entry entry = { .seq = audit->seq + 1,
		.time_ms = (int64_t)(clock_ns(CLOCK_REALTIME) / NS_PER_MS),
		.kind = kind,
		.action = *action,
		.of = of,
		.lost = audit->lost,
		.torn = audit->torn };
	size_t skip = audit->newline ? 1 : 0, len;
	ssize_t n;

	if (look(audit, err) < 0)
		return -1;
	audit->line[0] = '\n';
	len = audit_line_build(&entry, audit->head, audit->line + 1);
	do {
		n = write(audit->fd, audit->line + 1 - skip, len + skip);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return fault_set(err, KODA_IO, errno, "write to the audit log '%s'", audit->path);
	audit->size += n;
	/* If only the newline is missing, the line counts, and the next one begins with it. */
	if ((size_t)n + 1 >= len + skip) {
		digest_bytes(audit->line + 1, len, audit->head);
		audit->seq = entry.seq;
		audit->torn = false;
		audit->newline = (size_t)n < len + skip;
		audit->lost = 0;
		return 0;
	}
	if ((size_t)n >= skip)
		audit->newline = false;
	if ((size_t)n > skip) {
		audit_fold_torn(audit->head, audit->line + 1, (size_t)n - skip);
		audit->torn = audit->newline = true;
	}
	return fault_set(err, KODA_IO, ENOSPC, "write to the audit log '%s'", audit->path);
}

int
audit_intent(struct audit *audit, const struct audit_action *action, uint64_t *ret_id,
    struct koda_error *err)
{
	if (append(audit, AUDIT_INTENT, 0, action, err) < 0)
		return -1;
	*ret_id = audit->seq;
	return 0;
}

static int
tell(struct audit *audit, enum audit_kind kind, uint64_t of, const struct audit_action *action,
    struct koda_error *err)
{
	if (append(audit, kind, of, action, err) == 0)
		return 0;
	audit->lost++;
	return -1;
}

int
audit_outcome(struct audit *audit, uint64_t id, const struct audit_action *action,
    struct koda_error *err)
{
	return tell(audit, AUDIT_OUTCOME, id, action, err);
}

int
audit_event(struct audit *audit, uint64_t of, const struct audit_action *action,
    struct koda_error *err)
{
	return tell(audit, AUDIT_EVENT, of, action, err);
}

/* ---- opening ---- */

/* Reads where an older file ends, so that the chain goes on from there. */
static int
continue_from(struct audit *audit, struct koda_error *err)
{
	struct audit_tail tail = { 0 };
	const char *why = NULL;
	struct stat st;

	if (fstat(audit->fd, &st) < 0)
		return fault_set(err, KODA_IO, errno, "check the audit log '%s'", audit->path);
	audit->size = st.st_size;
	if (audit_file_tail(audit->fd, st.st_size, &tail, &why) < 0)
		return fault_set(err, why != NULL ? KODA_INVALID : KODA_IO, why != NULL ? 0 : errno,
		    why != NULL ? "the audit log '%s' %s" : "read the audit log '%s'%s",
		    audit->path, why != NULL ? why : "");
	audit->seq = tail.seq;
	audit->torn = tail.torn;
	audit->newline = tail.newline;
	memcpy(audit->head, tail.head, sizeof(audit->head));
	return 0;
}

struct audit *
audit_open(const char *path, const char *const *places, size_t n_places,
    const struct audit_action *start, struct koda_error *err)
{
	struct audit *audit = calloc(1, sizeof(*audit));

	if (audit == NULL || (audit->path = strdup(path)) == NULL) {
		free(audit);
		fault_set(err, KODA_INTERNAL, ENOMEM, "open the audit log");
		return NULL;
	}
	audit->fd = audit_file_open(path, places, n_places, err);
	if (audit->fd < 0 || continue_from(audit, err) < 0 ||
	    append(audit, AUDIT_START, 0, start, err) < 0) {
		audit_free(audit);
		return NULL;
	}
	if (fdatasync(audit->fd) < 0 && errno != EINVAL) {
		fault_set(err, KODA_IO, errno, "sync the audit log '%s'", path);
		audit_free(audit);
		return NULL;
	}
	return audit;
}

void
audit_close(struct audit *audit)
{
	static const struct audit_action none = { 0 };
	struct koda_error err = { 0 };
	char hex[DIGEST_HEX_SIZE];

	if (audit == NULL)
		return;
	if (append(audit, AUDIT_END, 0, &none, &err) == 0 && audit->newline)
		fault_set(&err, KODA_IO, ENOSPC, "write to the audit log '%s'", audit->path);
	if (err.code != KODA_OK || fdatasync(audit->fd) < 0)
		fprintf(stderr, "koda-sandbox: the audit log could not be ended: %s\n",
		    err.code != KODA_OK ? err.message : strerror(errno));
	if (!audit->torn) {
		digest_hex(audit->head, sizeof(audit->head), hex);
		fprintf(stderr, "koda-sandbox: audit log: %" PRIu64 " lines, head %s\n", audit->seq,
		    hex);
	}
	audit_free(audit);
}

/* ---- verifying ---- */

struct verify {
	struct audit_chain *chain;
	const uint8_t *head;
	uint64_t head_line;
	bool unfinished;
};

static int
on_line(void *data, const char *line, size_t len, bool whole)
{
	struct verify *verify = data;
	struct audit_chain *chain = verify->chain;

	if (audit_chain_add(chain, line, len) < 0)
		return -1;
	verify->unfinished = !whole;
	if (verify->head != NULL && chain->torn_line == 0 &&
	    memcmp(chain->head, verify->head, sizeof(chain->head)) == 0)
		verify->head_line = chain->lines;
	return 0;
}

int
audit_verify(const char *path, const uint8_t *head, struct audit_chain *ret,
    uint64_t *ret_head_line, struct koda_error *err)
{
	struct audit_chain chain = { 0 };
	struct verify verify = { .chain = &chain, .head = head };
	int r = audit_file_lines(path, on_line, &verify, err);

	if (r < 0)
		return -1;
	if (r == 0)
		r = audit_chain_end(&chain, verify.unfinished);
	*ret = chain;
	*ret_head_line = verify.head_line;
	if (r == 0)
		return 0;
	return chain.broken_line != 0
	    ? fault_set(err, KODA_CONFLICT, 0, "line %" PRIu64 " %s", chain.broken_line, chain.why)
	    : fault_set(err, KODA_CONFLICT, 0, "%s", chain.why);
}
