/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the files host/protect/protect*.c share. */
#ifndef KODA_HOST_PROTECT_PROTECT_STATE_H
#define KODA_HOST_PROTECT_PROTECT_STATE_H

#include "host/protect/journal.h"
#include "host/protect/place_set.h"
#include "host/sandbox/state.h"
#include "host/slot/state.h"

/* Limit for one slot. If a tree has more places, it is not covered completely, which is
 * reported. */
#define PROTECT_PLACES_MAX 20000
/* Interval of comparisons while a background command runs. */
#define PROTECT_INTERVAL_MS 2000
/* Interval of looks at what the host's git would use, while any command runs. They take less than a
 * thousandth of a processor, and a user's shell prompt runs git not much more often. */
#define PROTECT_LOOK_MS 50

/* The commands of the slot (host/command/commands). */
struct protect_client {
	/* Does any command run? */
	bool (*any_runs)(const void *data);
	/* The same, or is what a command left being compared? */
	bool (*any_in_use)(const void *data);
	/* How many planted things may be kept. */
	uint32_t (*may_keep)(const void *data);
	/* The host took away something at that path, which the commands, or commands of so many
	 * neighbours, may have planted. */
	void (*planted)(void *data, const char *path, size_t neighbours);
};

/* Runs when a comparison is done. */
typedef void protect_done_fn(void *data);

enum protect_how {
	/* Only what the host's git would use right now. */
	PROTECT_LOOK,
	/* Everything, but git may be at work: leave what is harmless as it is. */
	PROTECT_GENTLY,
	PROTECT_WHOLLY,
};

struct waiter {
	struct waiter *next;
	protect_done_fn *done;
	void *data;
};

struct protect {
	struct koda_slot *slot; /* whose worker looks */
	struct sandbox *sb;     /* whose view is planned */
	struct violations *violations;
	const struct protect_client *client;
	void *data; /* the client's */
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
	/* Neighbours with a directory in common with this session when the comparison under way
	 * began. */
	size_t neighbours;
	/* Deadline in ns of the slot's last comparison; 0 if the slot is not ending. */
	uint64_t until;
	bool left;  /* something planted could not be moved */
	bool again; /* the next comparison tries that once more */
	/* The comparison under way, and the waiters for it and for the one after it; `told` waited
	 * for the last one. */
	bool running, more;
	enum protect_how how, how_next;
	unsigned tries;
	struct waiter *told, *now, *next;
	char *blame;
};

#endif
