/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan as it is mounted: one entry for each place, in the order of the plan, with what stage2
 * found and mounted there. stage2/view fills it; the parts that watch places, hide them or look for
 * processes read it.
 */
#ifndef KODA_STAGE2_VIEW_ENTRY_H
#define KODA_STAGE2_VIEW_ENTRY_H

#include <string.h>

#include "stage2/stage2.h"

struct view_entry {
	Koda__MountKind kind;
	char *path;
	/* A git directory: see stage2/links.h. */
	bool plain;
	/* Outside of all directories that commands can write. */
	bool outside;
	/* It did not exist, and an earlier entry is the mirror that never shows it. */
	bool masked;
	/* This entry is a mirror: it is not in the plan, but takes part in its order. */
	struct mirror *mirror;
	/* 0: anything that is there. */
	uint64_t dev, ino;
	bool there;     /* mounted now */
	bool uncovered; /* it exists, and is mounted when a command starts */
	/* Not of the plan: the target of a link, see view_add_linked(). */
	bool linked;
	/* It hides something that appeared in a directory that commands write, and that a
	 * command may have made: see view_uncover(). */
	bool late;
	bool directory;                    /* the mount is on a directory */
	uint64_t mounted_dev, mounted_ino; /* the inode that the mount is on */
	/* The ID of our mount, to find it in mountinfo. */
	int mount_id;
};

struct slot_view {
	struct view_entry *entry;
	size_t n;
	/* IDs of mounts that are no longer where we put them: another process outside has moved
	 * them, or they are gone. */
	int *former;
	size_t n_former;
	/* The root and the directories that commands write. */
	char **root;
	size_t n_roots;
	/* For stage2/caches: what is mounted where, each with a file system of its own. */
	struct view_cache {
		char *path;
		dev_t dev;
	} * cache;
	size_t n_caches;
	/* For stage2/drafts: the overlays, of which no other process has any. */
	struct view_draft {
		dev_t dev;
		int context; /* for overlay_refresh() */
	} * draft;
	size_t n_drafts;
	struct lower_names *lower_names;
	/* Names below the overlays have changed. */
	bool stale;
	/* The slot's file system in memory; stage2/private mounts its directories. */
	int memory_fd;
	/* What commands see in hidden places: see stage2/hidden.h. */
	int hidden_fd;
};

/* Shown again inside of a hidden place. */
static inline bool
view_entry_is_hole(const struct view_entry *e)
{
	return e->kind == KODA__MOUNT_KIND__MOUNT_KIND_HOLE ||
	    e->kind == KODA__MOUNT_KIND__MOUNT_KIND_WRITABLE_HOLE;
}

/* Is path below dir? False if they are the same. */
static inline bool
view_entry_is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (len == 1)
		return path[1] != '\0';
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

#endif
