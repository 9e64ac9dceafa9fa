/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings what is held to a place in the project, and holds what was there: what all ways of doing that
 * share. Acts on descriptors only, decides nothing about permission, and knows files by their
 * identity, so that its successor finishes what a worker died in, once.
 *
 * What is held comes from the draft's layer or from `old` of the history. How it comes: within.h, or
 * across.h if the place is on another file system than draft and history, and directory.h.
 */
#ifndef KODA_WORKER_DRAFT_SWAP_H
#define KODA_WORKER_DRAFT_SWAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proto/worker.pb-c.h"
#include "shared/base/bytes.h"
#include "shared/wire/protocol.h"
#include "worker/files/resolve.h"

enum swap_kind {
	SWAP_BRING, /* something is held; at the place may be something */
	SWAP_TAKE,  /* nothing is held: what is at the place is */
	SWAP_MKDIR,
	SWAP_RMDIR,
	SWAP_MODE,
	SWAP_SHIFT, /* what is at another place of the project */
};

/* A name, as it was last looked at. */
struct swap_name {
	int dir; /* O_PATH; -1: its directory is gone */
	const char *name;
	bool there;
	struct stat st;
};

/* Files that had more names when a name of them was removed, which changed their ctime. Only the
 * last ones are kept: if one is forgotten, a file is taken as changed that is not. */
#define SWAP_TOUCHED_MAX 256
struct swap_touched {
	struct {
		dev_t dev;
		ino_t ino;
		int64_t ctime_ns;
	} file[SWAP_TOUCHED_MAX];
	unsigned n; /* so far */
};

#define SWAP_TEMP_SIZE (sizeof(TEMP_PREFIX) + 5 + 16 + 1 + SWAP_NAME_MAX)

struct swap {
	const struct resolver *res;
	const Koda__SwapItem *item;
	enum swap_kind kind;
	const char *path; /* of the place, canonical */
	/* The caller sets directory and name of these three. */
	struct swap_name place, source, old;
	bool from_old; /* source is in `old`, under the item's name */
	/* The source was looked at right now: several_has_copy() does that. */
	bool looked;
	const char
	    *from;   /* SWAP_SHIFT: the canonical path of the source, which is in the project */
	bool across; /* the place is on another file system than source and old */
	uid_t me;
	struct swap_touched *touched; /* of earlier items, too */
	/* Called right before each step that changes the project. Returns 0, or -1 with *err set:
	 * the place's directory is not where it was judged. */
	int (*verify)(void *data, struct koda_error *err);
	void *data;

	/* The temporary name beside the place; see across.h. */
	char temp_name[SWAP_TEMP_SIZE];
	struct swap_name temp;
	/* Set if *err is: */
	Koda__SwapOutcome outcome;
	/* Done: what is at the place and what is held. */
	bool has_here, has_held;
	struct stat here, held;
};

enum swap_state {
	SWAP_FRESH, /* nothing has happened: judge it, then swap_run_act() */
	SWAP_BEGUN, /* a worker that judged it has died in it: finish it with swap_run_act() */
	SWAP_OVER,  /* outcome is set */
};

/* Looks the name up again. Returns 0, also if it is missing; -1 with errno. */
int swap_stat(struct swap_name *n);
bool swap_is(const struct swap_name *n, const Koda__Identity *id);
/*
 * Is it that file, and unchanged as far as its ctime tells? Moving a name of a file changes its ctime,
 * and with it that of its other names, which may be items as well: for a file with several names the
 * time of its content counts.
 */
bool swap_is_unchanged(const struct swap *w, const struct swap_name *n, const Koda__Identity *id);
/* Removes the file that has that name; remembers it, if it has more names. Returns 0, or -1 with
 * errno. */
int swap_unlink(struct swap *w, const struct swap_name *n);
/* May what is at the place be held, or be replaced? Sets outcome and *err if not. */
bool swap_may_hold(struct swap *w, struct koda_error *err);
/* Is what is held in the layer or in `old` unchanged, except by a worker? */
bool swap_source_is_unchanged(struct swap *w);
/* For what a worker that died has moved, which changed its ctime: was its content changed since it was
 * listed? A time in the future does not come from writing. */
bool swap_is_written_since(const struct stat *st, const Koda__Identity *id);
/* Is it another file than `was`, or was its content or mode changed since? */
bool swap_has_changed(const struct stat *was, const struct stat *now);

/* Set outcome and *err, and return SWAP_OVER. */
enum swap_state swap_conflict(struct swap *w, const char *what, struct koda_error *err);
enum swap_state swap_gone(struct swap *w, struct koda_error *err);
/* The place's directory is gone, or something else is in its stead. */
enum swap_state swap_no_directory(struct swap *w, struct koda_error *err);
enum swap_state swap_failed(struct swap *w, const char *what, int errnum, struct koda_error *err);
enum swap_state swap_refused(struct swap *w, const char *rule, const char *reason,
    struct koda_error *err);
/* Sets outcome to SWAP_DONE or SWAP_WAS_DONE, and the sides to what is there. */
enum swap_state swap_over(struct swap *w, Koda__SwapOutcome outcome);

/* Calls verify. Returns 0, or -1 with outcome and *err set. */
int swap_verify(struct swap *w, struct koda_error *err);
/*
 * Exchanges the place and `other` again, after what came out turned out to be wrong; `put` is what was
 * put at the place. If another process replaces the place meanwhile, the newest file ends up there.
 * Returns 0, and *other is as it is now: `put`, or a file that the other process has replaced. -1:
 * outcome and *err are set.
 */
int swap_exchange_back(struct swap *w, struct swap_name *other, const struct stat *put,
    struct koda_error *err);
/* Removes the whiteout for the place from the layer, if there is one. */
void swap_unwhite(struct swap *w);
/* Makes what the layer holds fit for the project: refuses it, or removes the marks of overlayfs.
 * Returns 0, or -1 with outcome and *err set. */
int swap_fit(struct swap *w, struct koda_error *err);

#endif
