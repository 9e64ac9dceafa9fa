/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of a server: a line of intent before each action, a line of outcome after it, and
 * lines about what commands did meanwhile (audit_line.h). A file has one writer. An action that
 * cannot be announced must not be done: when audit_intent() fails, the caller refuses.
 *
 * Each line is one write(2), so the log has everything that was done when the server dies, however
 * it dies. It is synced to disk when a server has started or ended, not after each line: a sync
 * takes longer than all the rest of a call. After a power failure the last lines may be missing; a
 * head that was kept elsewhere reveals that.
 */
#ifndef KODA_MCP_AUDIT_H
#define KODA_MCP_AUDIT_H

#include <stdint.h>

#include "mcp/audit_line.h"

struct audit;

/*
 * Continues the log, or creates it (0600), and writes a start line. Refuses: a path below one of
 * the n_places, which commands or file operations may write (audit_places.h), by name or by inode,
 * through links or not; a link; a file with another name; a file that others may write; a file that
 * another server writes; a file that does not end like an audit log. Returns NULL with *err set on
 * failure.
 */
struct audit *audit_open(const char *path, const char *const *places, size_t n_places,
    const struct audit_action *start, struct koda_error *err);

/* Returns 0 with *ret_id set, or -1 with *err set: then the action must not be done. */
int audit_intent(struct audit *audit, const struct audit_action *action, uint64_t *ret_id,
    struct koda_error *err);

/* Returns -1 with *err set if the action was done but the log does not say how it ended. The
 * next line that can be written says how many outcomes are missing; the server reports the
 * failure to its user now. */
int audit_outcome(struct audit *audit, uint64_t id, const struct audit_action *action,
    struct koda_error *err);

/* Logs what could not be announced. of is the id of the intent that it belongs to, or 0 for
 * none. Returns as audit_outcome() does. */
int audit_event(struct audit *audit, uint64_t of, const struct audit_action *action,
    struct koda_error *err);

/* Writes the end line, syncs, and prints the head on standard error. audit may be NULL. */
void audit_close(struct audit *audit);

/*
 * Reads a log from its beginning. Returns 0 with its chain in *ret, or -1 with *err set: it could
 * not be read, or, with KODA_CONFLICT, it is broken where *ret says. head may be NULL; otherwise
 * *ret_head_line becomes the number of the line that has this digest, or 0 if there is none.
 */
int audit_verify(const char *path, const uint8_t *head, struct audit_chain *ret,
    uint64_t *ret_head_line, struct koda_error *err);

#endif
