/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of an entry of the history, in memory (host/draft/history). */
#ifndef KODA_HOST_DRAFT_HISTORY_ENTRY_H
#define KODA_HOST_DRAFT_HISTORY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/draft/named.h"
#include "proto/worker.pb-c.h"
#include "shared/wire/protocol.h"

#define HISTORY_VERSION   1
#define HISTORY_ITEMS_MAX 1100000 /* those of the largest draft, and its type changes */
/* Bytes of paths and of links' targets: commands choose how long they are, and a draft can have a
 * million. A list of changes that is kept in memory stops there, too. */
#define HISTORY_TEXT_MAX ((size_t)256 << 20)

/* What has a name; type 0: nothing. */
struct draft_side {
	Koda__FileType type;
	uint64_t dev, ino, size;
	uint32_t mode;
	int64_t mtime_ns, ctime_ns;
	char *target; /* of a link */
};

void side_done(struct draft_side *s);
/* Copies a message; NULL: nothing. Returns -1 with *err set without memory, or if a link's target is
 * longer than a path. */
int side_take(struct draft_side *to, const Koda__DraftSide *from, struct koda_error *err);
int side_copy(struct draft_side *to, const struct draft_side *from, struct koda_error *err);
/* Returns the message, which points into the side and *store; NULL if there is nothing. */
Koda__DraftSide *side_put(const struct draft_side *s, Koda__DraftSide *store);

enum item_state {
	ITEM_PENDING, /* not done yet */
	ITEM_DONE,
	ITEM_UNDONE,
	ITEM_NOT_DONE, /* and it will not be */
};

struct history_item {
	char name[SWAP_NAME_MAX + 1]; /* in `old` */
	char *place;
	char *note; /* of the change that is being applied, or NULL; it is not in the file */
	uint32_t layer;
	Koda__DraftKind kind;
	bool take;   /* whatever is at the place */
	bool merged; /* what comes is a merged text; not in the file */
	enum item_state state;
	/* The item is in a turn that is not over: it has to get the other state. */
	bool turning;
	bool turned;                     /* it was taken back, or was going to be, at some time */
	struct draft_side before, after; /* as they were listed */
	struct draft_side here, held;    /* since its last swap */
	char *to;      /* of a rename, whose `held` is what was moved; NULL: it is not one */
	char *unkept;  /* why what was at the place is not held; NULL: it is */
	int64_t at_ns; /* when it was made; 0: with the entry */
};

void history_item_done(struct history_item *item);

struct history {
	char id[NAMED_ID_MAX + 1];
	char *root;
	char *draft; /* its id, or "" */
	int64_t begun_ns, changed_ns;
	uint64_t bytes; /* on the disk, when it was listed (history_list) */
	int fd;         /* the directory, locked unless in_use; -1: closed */
	int items;      /* the file; -1: closed */
	struct history_item *item;
	size_t n_items, size;
	size_t n_written; /* items that are in the file */
	bool turn_undone; /* what a turn that is not over is for */
	bool unfinished;  /* a host was killed on the way */
	bool in_use;      /* another process has locked it */
};

#define HISTORY_CLOSED                                                                             \
	(struct history)                                                                           \
	{                                                                                          \
		.fd = -1, .items = -1                                                              \
	}

/*
 * Is it the last step of a directory that was made, and that the draft's permissions do not allow
 * anything to be put into? The directory is made with more of them, and gets its own at the end. Which
 * directory that is the item that made it knows: the one before this with the same place.
 */
bool history_closes(const struct history_item *item);
/* Add an item, which takes over the memory it refers to. Returns it, valid until the next one is
 * added, or NULL with *err set. It is not in the file yet. */
struct history_item *history_add(struct history *h, struct koda_error *err);
/* Is the entry one of file operations? Its changes are in the logs of workers. */
bool history_is_of_files(const struct history *h);
/*
 * The item was done or taken back (undone): here and held are what the worker reported. If files were
 * copied, what was at the place is another file now than the one that the change before it made, and so
 * is what is held: the items next to it get to know that. Returns -1 with *err set without memory.
 */
int history_settle(struct history *h, struct history_item *item, bool undone,
    const Koda__DraftSide *here, const Koda__DraftSide *held, struct koda_error *err);
/* Item i has taken away `was`, of which `now` is a copy. */
void history_copied(struct history *h, size_t i, const struct draft_side *was,
    const struct draft_side *now);
/* Accepts a closed one. */
void history_close(struct history *h);

#endif
