/* The state that the files host/protect/protect*.c share. */
#ifndef KODA_HOST_PROTECT_PROTECT_STATE_H
#define KODA_HOST_PROTECT_PROTECT_STATE_H

#include "host/protect/journal.h"
#include "host/protect/place_set.h"
#include "host/protect/protect.h"

struct waiter {
	struct waiter *next;
	protect_done_fn *done;
	void *data;
};

struct protect {
	struct place_set places;
	uint8_t token[TOKEN_BYTES]; /* of the worker that watches */
	bool scanned;               /* a worker has scanned at least once */
	uint64_t mounted_boot;      /* the boot of the sandbox that has this plan mounted */
	/* The worker does not know yet that the reported places are mounted. */
	bool mounted_news;
	bool plan_old; /* places were added that are not mounted yet */
	bool said_unwatched;
	bool said_cut, too_many; /* not all places are known */
	struct journal journal;
	bool journaled;        /* the journal was begun, or cannot be */
	uint64_t journal_boot; /* the boot of the sandbox that the journal knows */
	/* Number of commands begun, and its value when the last complete comparison without running
	 * commands began. While they differ, something that a command left may be unknown. */
	uint64_t begun, seen, seen_next;
	/* Deadline in ns of the slot's last comparison; 0 if the slot is not ending. */
	uint64_t until;
	bool left;  /* something planted could not be moved */
	bool again; /* the next comparison tries that once more */
	/* The comparison under way, and the waiters for it and for the one after it. */
	bool running, more;
	enum protect_how how, how_next;
	unsigned tries;
	struct waiter *now, *next;
	char *blame;
};

/* Record a violation that is not about one change, on behalf of the command to blame. */
void protect_note(struct sandbox *sb, enum koda_violation_kind kind, const char *target,
    const char *rule, const char *detail);
void protect_note_cut(struct sandbox *sb); /* not all files were covered; once a slot */

#endif
