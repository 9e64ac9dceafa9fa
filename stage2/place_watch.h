/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the places of the plan. For each place it knows the nearest existing directory, which
 * signals when names in it change (stage2/notice), what the name referred to, and whether the
 * plan's mount is there. It mounts nothing and reports nothing.
 */
#ifndef KODA_STAGE2_PLACE_WATCH_H
#define KODA_STAGE2_PLACE_WATCH_H

#include "stage2/view_entry.h"

/* What a name referred to when it was checked. These differ for another object. */
struct place_sight {
	int errnum;
	uint64_t mount, ino;
	dev_t dev;
	int64_t born;
};

/* What is known about the entry of the plan with the same number. */
struct watched_place {
	size_t dir;  /* number + 1; 0: not watched */
	size_t next; /* of the next place in the directory, + 1 */
	/* The name to look for in the directory. Points into the entry's path. */
	const char *name;
	size_t name_len;
	struct place_sight sight;
	/* Mount it when it appears: its mount has gone, or the place is to be hidden. */
	bool lost;
	bool told; /* its appearance was reported */
	bool touched;
};

struct watched_dir;

struct place_watch {
	int mountinfo;
	struct watched_place *place;
	size_t n_places;
	struct watched_dir *dir;
	size_t n_dirs, dirs_size;
	/* A directory is not watched: the kernel does not signal, or there are no descriptors
	 * left. */
	bool blind;
	bool planning; /* everything watched was opened for this plan */
	bool busy;     /* a command runs or is about to: hide late places */
};

/* What is at the entry's path now. */
enum at_place { AT_NOTHING, AT_OURS, AT_OTHER, AT_LINK };
enum at_place place_watch_look(const struct slot_view *v, const struct view_entry *e);

/* Returns NULL with *err set on failure. */
struct place_watch *place_watch_new(struct koda_error *err);
/* Descriptor to poll (POLLPRI). */
int place_watch_mountinfo_fd(const struct place_watch *w);
/* The plan has changed: watch its places instead of the old ones. Call it before any process
 * continues in the new view. */
void place_watch_plan(struct place_watch *w, const struct slot_view *v);
/* A directory is not watched. */
bool place_watch_is_blind(const struct place_watch *w);

/*
 * Watch the nearest existing directory on the way to the entry. If this fails for an entry, it is
 * checked from time to time (watch_look()).
 */
void place_watch_hook(struct place_watch *w, const struct slot_view *v, size_t i);
/* Watch the place of entry i, which is new or for another place now, until the place appears.
 * Returns 0, or -1 if memory is short. */
int place_watch_add(struct place_watch *w, const struct slot_view *v, size_t i);
/* Stop watching directories that no place needs any more. */
void place_watch_prune(struct place_watch *w);

/* Names have changed in the directory that is open as fd, or perhaps in any directory (-1). Marks
 * the places that may have changed with them. Returns true if there are any. */
bool place_watch_touch(struct place_watch *w, const struct slot_view *v, int fd);

/* Returns true if the entry has to be mounted: it was replaced, or has appeared and is to be
 * hidden. */
bool place_watch_is_damaged(const struct place_watch *w, const struct slot_view *v, size_t i);
bool place_watch_any_damaged(const struct place_watch *w, const struct slot_view *v);

#endif
