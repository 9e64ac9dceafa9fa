/*
 * The audit log of a server: a line of intent before each action, one of outcome after it, and lines of
 * what commands did meanwhile (audit_line.h). One writer a file. What cannot be announced must not be done: when audit_intent() fails, the caller refuses.
 *
 * Each line is one write(2), so the log has what was done when the server dies, however it dies. It is on disk when a
 * server has started or ended, not after each line: a sync takes longer than all the rest of a call. After a power
 * failure the last lines may be missing; a head that was kept elsewhere tells.
 */
#ifndef KODA_MCP_AUDIT_H
#define KODA_MCP_AUDIT_H

#include <stdint.h>

#include "mcp/audit_line.h"

struct audit;

/*
 * Continue the log, or begin it (0600), with a line of start. Refused: below one of the n_places, which commands or file
 * operations may write (audit_places.h), by name, by inode, through links or not; a link; a file with another name; one that
 * others may write; one that another server writes; one whose end is no audit log.
 * NULL with *err set.
 */
struct audit *audit_open(const char *path, const char *const *places, size_t n_places,
    const struct audit_action *start, struct koda_error *err);

/* 0 with *ret_id, or -1 with *err set: then nothing may be done. */
int audit_intent(struct audit *audit, const struct audit_action *action, uint64_t *ret_id,
    struct koda_error *err);

/* -1 with *err set: it was done, and the log does not say how it ended. The next line that can be written tells how many
 * outcomes are missing; the server tells its user now. */
int audit_outcome(struct audit *audit, uint64_t id, const struct audit_action *action,
    struct koda_error *err);

/* What nobody could announce; of 0: of no intent. As above. */
int audit_event(struct audit *audit, uint64_t of, const struct audit_action *action,
    struct koda_error *err);

/* Write the end, sync, and print the head on standard error. NULL is fine. */
void audit_close(struct audit *audit);

/*
 * Read a log from its beginning. 0: *ret is its chain; -1 with *err set: it could not be read, or, with KODA_CONFLICT, it is
 * broken where *ret says. head, or NULL: *ret_head_line becomes the line whose digest it is, 0: there is none.
 */
int audit_verify(const char *path, const uint8_t *head, struct audit_chain *ret,
    uint64_t *ret_head_line, struct koda_error *err);

#endif
