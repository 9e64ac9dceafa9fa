/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of the audit log, and the chain that lines form. Pure: text in, text out.
 *
 * A line is a JSON object whose first members are seq, time and kind and whose last ones are prev
 * and sum. prev is the BLAKE2b-256 of the line before, its newline included, so that `tail -n 1
 * FILE | b2sum -l 256` prints the chain's head; 64 zeros in the first line. sum is the first half
 * of the BLAKE2b-256 of the text before it: it reveals a changed bit in the last line too, which no
 * later line covers. An attacker who can write the file can rewrite all of it from any line on;
 * only a head that was kept elsewhere helps against that.
 *
 * A torn line (after a crash, or on a full disk) stays. The next line says "torn":true. Its prev is
 * then the BLAKE2b-256 of two things, one after the other: the prev that it would have without the
 * torn line, and the torn line with a newline.
 */
#ifndef KODA_MCP_AUDIT_LINE_H
#define KODA_MCP_AUDIT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

enum audit_kind {
	AUDIT_START = 0, /* a server begins to write */
	AUDIT_INTENT,    /* what is about to happen; written before it does */
	AUDIT_OUTCOME,   /* its result */
	AUDIT_END,       /* a server has ended normally */
	/* A later result of an action, or something that was not announced: what commands did. */
	AUDIT_EVENT,
};

/* What was done, and by which session. Members that are NULL are left out. The texts are copied
 * before the call returns. */
struct audit_action {
	const char *session;
	const char *tool;
	const char *path, *to; /* canonical if that is known */
	const char *command;
	const char *verdict; /* "allowed", "refused" ... */
	const char *rule;
	/* By the user: "once", "session", or "kept" for what an earlier answer covers. */
	const char *approved;
	const char *detail;            /* one sentence */
	const uint8_t *before, *after; /* digests, KODA_DIGEST_BYTES */
	const int *status;             /* a command's, 128 + n for a signal */
	uint64_t duration_us;          /* of an outcome, and of an event unless it is 0 */
};

struct audit_entry {
	uint64_t seq;    /* from 1, without a gap */
	int64_t time_ms; /* since the epoch */
	enum audit_kind kind;
	struct audit_action action;
	uint64_t of;   /* the seq of its intent; always for an outcome, sometimes for an event */
	uint64_t lost; /* outcomes and events before this line that could not be written */
	bool torn;
};

/* Maximum bytes of each text in a line. A text that was cut, or is not UTF-8, is accompanied by
 * its length and its digest. */
#define AUDIT_NAME_MAX    256
#define AUDIT_PATH_MAX    4096 /* PATH_MAX: a path is never cut */
#define AUDIT_COMMAND_MAX 8192
#define AUDIT_DETAIL_MAX  1024
/* More than all texts of an entry take when every byte needs an escape of six bytes. */
#define AUDIT_LINE_MAX (128u << 10)

/* Writes the line to ret, which has AUDIT_LINE_MAX bytes. Returns its length, newline included. */
size_t audit_line_build(const struct audit_entry *entry, const uint8_t prev[KODA_DIGEST_BYTES],
    char *ret);

struct audit_checked {
	uint64_t seq, of, lost;
	enum audit_kind kind;
	bool torn;
	uint8_t prev[KODA_DIGEST_BYTES];
};

/* Returns whether this is a line as audit_line_build() makes them, without its newline. If it is
 * not, *ret_why is a static part of a sentence. */
bool audit_line_check(const char *line, size_t len, struct audit_checked *ret,
    const char **ret_why);

#define AUDIT_WHY_MAX 200

/* Zero-initialise. Takes the lines of a file from its beginning on. */
struct audit_chain {
	uint64_t lines, seq; /* lines read so far; the number of the last whole line */
	uint64_t starts, intents, outcomes, events, lost;
	uint64_t torn; /* torn lines that the next line reports */
	/* The first torn line that no later line has reported yet; 0: none. */
	uint64_t torn_line;
	const char *torn_why;
	uint8_t head[KODA_DIGEST_BYTES];
	uint64_t broken_line;    /* where the chain breaks; 0: after the last line */
	char why[AUDIT_WHY_MAX]; /* part of a sentence */
};

/* Adds the next line, without its newline. Returns 0, or -1 if it does not follow, with
 * broken_line and why set. */
int audit_chain_add(struct audit_chain *chain, const char *line, size_t len);
/* Ends the chain after the last line; unfinished says that this line had no newline. Returns as
 * audit_chain_add() does. */
int audit_chain_end(struct audit_chain *chain, bool unfinished);

/* Update *head to the prev of the next line: after a whole line, or after a torn one if *head is
 * what prev would have been without it. The text has no newline, and is hashed with one. */
void audit_fold_whole(uint8_t head[KODA_DIGEST_BYTES], const char *text, size_t len);
void audit_fold_torn(uint8_t head[KODA_DIGEST_BYTES], const char *text, size_t len);

#endif
