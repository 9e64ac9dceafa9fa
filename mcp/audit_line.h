/*
 * One line of the audit log, and the chain that lines make. Pure: text in, text out.
 *
 * A line is a JSON object whose first members are seq, time and kind and whose last ones are prev and sum. prev is the
 * BLAKE2b-256 of the line before, its newline included, so that `tail -n 1 FILE | b2sum -l 256` prints the chain's head; 64
 * zeros in the first line. sum is the first half of the BLAKE2b-256 of what stands before it: it tells of a changed bit in the
 * last line as well, which no other line speaks for. Who can write the file can make all of it anew from any line on: against
 * that helps only a head that was kept elsewhere.
 *
 * A torn line (a crash, a full disk) stays. The next line says "torn":true, and its prev is the BLAKE2b-256 of what
 * prev would have been and the torn line, newline included.
 */
#ifndef KODA_MCP_AUDIT_LINE_H
#define KODA_MCP_AUDIT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"

enum audit_kind {
	AUDIT_START = 0, /* a server begins to write */
	AUDIT_INTENT,    /* what is about to happen: written before it does */
	AUDIT_OUTCOME,   /* what came of it */
	AUDIT_END,       /* a server has ended as it should */
	AUDIT_EVENT, /* what came of an action later, or what nobody announced: what commands did */
};

/* What was done, by whom. NULL is left out. Copied before the call returns. */
struct audit_action {
	const char *session;
	const char *tool;
	const char *path, *to; /* canonical, where that is known */
	const char *command;
	const char *verdict; /* "allowed", "refused" ... */
	const char *rule;
	const char *approved; /* by the user: "once", "session" or, for what that covers, "kept" */
	const char *detail;   /* one sentence */
	const uint8_t *before, *after; /* digests, KODA_DIGEST_BYTES */
	const int *status;             /* a command's, 128 + n for a signal */
	uint64_t duration_us;          /* of an outcome, and of an event if it is not 0 */
};

struct audit_entry {
	uint64_t seq;    /* from 1, without a gap */
	int64_t time_ms; /* since the epoch */
	enum audit_kind kind;
	struct audit_action action;
	uint64_t of;   /* the seq of its intent: an outcome has one, an event may */
	uint64_t lost; /* outcomes and events that could not be written before this line */
	bool torn;
};

/* The most bytes of each text that a line tells. What is cut, or is no UTF-8, has its length and its digest beside it. */
#define AUDIT_NAME_MAX    256
#define AUDIT_PATH_MAX    4096 /* PATH_MAX: a path is never cut */
#define AUDIT_COMMAND_MAX 8192
#define AUDIT_DETAIL_MAX  1024
/* Above what all texts of an entry come to when each byte needs an escape of six. */
#define AUDIT_LINE_MAX (128u << 10)

/* Returns the length, newline included; ret has AUDIT_LINE_MAX bytes. */
size_t audit_line_build(const struct audit_entry *entry, const uint8_t prev[KODA_DIGEST_BYTES],
    char *ret);

struct audit_checked {
	uint64_t seq, of, lost;
	enum audit_kind kind;
	bool torn;
	uint8_t prev[KODA_DIGEST_BYTES];
};

/* Is that a line as audit_line_build() makes them, its newline left out? *ret_why: a static half sentence. */
bool audit_line_check(const char *line, size_t len, struct audit_checked *ret,
    const char **ret_why);

#define AUDIT_WHY_MAX 200

/* Zero-initialise. Fed with the lines of a file from its beginning on. */
struct audit_chain {
	uint64_t lines, seq; /* read so far; the number that the last whole one has */
	uint64_t starts, intents, outcomes, events, lost;
	uint64_t torn;      /* torn lines that the next one tells of */
	uint64_t torn_line; /* the first of those that wait for one that does; 0: none */
	const char *torn_why;
	uint8_t head[KODA_DIGEST_BYTES];
	uint64_t broken_line;    /* where it went wrong; 0: behind the last */
	char why[AUDIT_WHY_MAX]; /* half a sentence */
};

/* The next line, without its newline. 0, or -1 when it does not follow, with broken_line and why. */
int audit_chain_add(struct audit_chain *chain, const char *line, size_t len);
/* Behind the last line; unfinished says that it had no newline. As above. */
int audit_chain_end(struct audit_chain *chain, bool unfinished);

/* What the next line's prev is behind a whole line, and behind a torn one when *head is what it would have been without
 * that. The text has no newline, and is taken with one. */
void audit_fold_whole(uint8_t head[KODA_DIGEST_BYTES], const char *text, size_t len);
void audit_fold_torn(uint8_t head[KODA_DIGEST_BYTES], const char *text, size_t len);

#endif
