/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the mounts that stage2 has made, wherever a process outside has moved them, by their IDs in
 * mountinfo, and unmounts them.
 */
#ifndef KODA_STAGE2_OWN_MOUNTS_H
#define KODA_STAGE2_OWN_MOUNTS_H

#include "stage2/view_entry.h"

/* Unmounts every mount of the plan, and former ones. Returns 0, or -1 with *err set. */
int own_mounts_unmount_all(struct slot_view *v, struct koda_error *err);

/* Unmounts what is at path if it is the mount with that ID. */
void own_mounts_unmount(int id, const char *path);

/*
 * Remembers a mount that is not where the plan wants it. It may still be mounted, and a new plan has
 * to know about it. id: -1 for none. Returns 0, or -1 if memory is short.
 */
int own_mounts_keep_former(struct slot_view *v, int64_t id);

#endif
