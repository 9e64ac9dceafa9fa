/*
 * Carries out the mount plan, in a mount namespace of our own, by descriptor: each place is resolved once, without
 * following any link, held against (dev, ino), cloned (open_tree) and moved onto itself (move_mount). Nothing is
 * mounted by name, so nothing can be put in its way.
 *
 * The old new-mount calls are all it uses (Linux 5.12: mount_setattr); there is no fallback.
 */
#ifndef KODA_STAGE2_VIEW_H
#define KODA_STAGE2_VIEW_H

#include "stage2/stage2.h"

struct view_entry {
	Koda__MountKind kind;
	char *path;
	/* A git directory: see stage2/links.h. */
	bool plain;
	/* Outside of all directories that commands can write. */
	bool outside;
	/* It did not exist, and an entry before it is the mirror that never shows it. */
	bool masked;
	/* This entry is a mirror: not of the plan, but in its order. */
	struct mirror *mirror;
	uint64_t dev, ino; /* 0: whatever is there */
	bool there;        /* mounted now */
	bool uncovered;    /* it is there, and waits for a command to start */
	/* Not of the plan: what a link leads to, see view_add_linked(). */
	bool linked;
	/* It hides what came into a directory that commands write, and a command may have made: see view_uncover(). */
	bool late;
	bool directory;                    /* what was covered */
	uint64_t mounted_dev, mounted_ino; /* what was covered */
	int mount_id;                      /* of our mount, to find it in mountinfo */
};

struct view {
	struct view_entry *entry;
	size_t n;
	int *
	    former; /* mounts that are not where they were: somebody outside has moved them, or they are gone */
	size_t n_former;
	/* Of stage2/caches: what is mounted where, each of a file system of its own. */
	struct view_cache {
		char *path;
		dev_t dev;
	} * cache;
	size_t n_caches;
	int memory_fd; /* the slot's file system in memory: stage2/private has its directories mounted */
	int hidden_fd; /* what is seen in hidden places: VIEW_HIDDEN */
};

/* An empty directory and an empty file, which are what a hidden place shows, on the slot's file system in memory. Before
 * Linux 6.15 only what is mounted can be cloned, so that is mounted here, too. */
#define VIEW_HIDDEN "/run/koda/hidden"

/* A file with its entry in a directory takes about a kilobyte of the kernel's memory, which the size of a file system in
 * memory does not count: so one file for so many bytes, and all of them take at most a quarter of the size more. */
#define VIEW_BYTES_PER_FILE 4096

/* Unshare the mount namespace, turn propagation off, and make a file system in memory of this size. Once. */
struct view *view_new(uint64_t bytes, struct koda_error *err);

/* Put an empty directory on the place behind the descriptor. 0, or -1 with errno. For stage2/caches. */
int view_cover(const struct view *v, int at);

/* Undo what is mounted now and mount this. idle: no command runs, and what is hidden in directories that commands write is
 * left for view_repair(), before one starts. Entries that are not there are marked. 0; -1 with *err set when the
 * view cannot be trusted any more: then stage2 ends. Copies the plan. */
int view_mount(struct view *v, Koda__Mount *const *mounts, size_t n, bool idle,
    struct koda_error *err);

/*
 * A place to be hidden that does not exist, in a directory that commands write, is reached through a link: what it leads
 * to is to be hidden as well when it comes. Adds an entry, or uses one again that came to nothing; its number in *ret.
 * 1: it is new or another place now, 0: there is nothing to do, -1 with errno: no memory, or E2BIG.
 */
#define VIEW_LINKED_MAX 64
int view_add_linked(struct view *v, const char *path, size_t *ret);

/*
 * No command runs. Take away what hides places that came after the plan was mounted, in directories that commands write:
 * a command may have made them, with a repository in them, and the worker has to find that. Before the next command
 * starts view_repair() hides them again. Returns how many.
 */
size_t view_uncover(struct view *v);

/* Names in a directory on the host have changed (stage2/notice.h): the mirrors look again. fd: of the signal, -1 any. */
void view_changed(struct view *v, int fd);
/* Before a command starts: the same for directories whose changes the kernel does not signal. */
void view_catch_up(struct view *v);

/* Mount again what somebody outside made disappear. It need not be the inode of the plan any more (that is what a file
 * that was replaced is not), but of the same type. Returns the number of entries repaired; *ret_lost of those that are
 * not there any more or that are something else now. -1 as above. */
int view_repair(struct view *v, size_t *ret_lost, struct koda_error *err);

#endif
