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
	uint64_t dev, ino;                 /* 0: whatever is there */
	bool there;                        /* mounted now */
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
	int hidden_fd; /* what is seen in hidden places: VIEW_HIDDEN */
};

/* A small file system with an empty directory and an empty file, which are what a hidden place shows. It has to be
 * mounted somewhere: only what is can be cloned (before Linux 6.15). */
#define VIEW_HIDDEN "/run/koda/hidden"

/* unshare(CLONE_NEWNS) and all propagation off. Once. */
struct view *view_new(struct koda_error *err);

/* Undo what is mounted now and mount this. Entries that are not there are marked. 0; -1 with *err set when the
 * view cannot be trusted any more: then stage2 ends. Copies the plan. */
int view_mount(struct view *v, Koda__Mount *const *mounts, size_t n, struct koda_error *err);

/* Mount again what somebody outside made disappear. It need not be the inode of the plan any more (that is what a file
 * that was replaced is not), but of the same type. Returns the number of entries repaired; *ret_lost of those that are
 * not there any more or that are something else now. -1 as above. */
int view_repair(struct view *v, size_t *ret_lost, struct koda_error *err);

#endif
