/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the plan that mounts some of its entries: clones what is shown again, opens each
 * place by descriptor, mounts on it, and checks that its path shows the mount. The caller chooses
 * the entries.
 */
#ifndef KODA_STAGE2_MOUNT_PASS_H
#define KODA_STAGE2_MOUNT_PASS_H

#include "stage2/view_entry.h"

/* The state of one pass over some of the entries. The arrays have an element for each entry. */
struct mount_pass {
	bool again;     /* repairing: need not be the inode of the plan */
	bool *todo;     /* to be mounted in this pass */
	bool *expected; /* it was mounted before */
	bool *holed;    /* it hides a place with holes in it */
	/* The nearest entry that contains this one and hides or shows it again; -1: none. */
	ssize_t *cover;
	int *hole_fd; /* the content of a hole, cloned before it was hidden */
	int *hide_fd; /* the file system that hides, while holes are made in it */
};

/* Returns 0, or -1 with *err set: then there is nothing to free. */
int mount_pass_init(struct mount_pass *p, const struct slot_view *v, struct koda_error *err);
/* n: the entries of the view. */
void mount_pass_done(struct mount_pass *p, size_t n);

/*
 * Leaves out the entries that hide places in directories that commands write, and the entries
 * inside them, until a command starts: a command of an earlier sandbox may have made these places,
 * and the worker has to check them first.
 */
void mount_pass_leave_uncovered(struct slot_view *v, struct mount_pass *p);

/*
 * Mounts the entries that are to be mounted and whose places exist, and notes in each whether it is
 * there now. Returns 0, or -1 with *err set: then the view cannot be trusted any more.
 */
int mount_pass_run(struct slot_view *v, struct mount_pass *p, struct koda_error *err);

#endif
