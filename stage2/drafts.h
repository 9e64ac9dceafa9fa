/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A draft (Boot.drafts): each directory that commands write becomes an overlay. The project is its
 * read-only lower layer, between them is one that hides names (host/draft/mask.h), and all changes go to the draft's own directory on the host. bwrap has bound
 * the project read-only, so nothing in this mount namespace can write it, even without the overlay.
 */
#ifndef KODA_STAGE2_DRAFTS_H
#define KODA_STAGE2_DRAFTS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "stage2/stage2.h"

#define DRAFTS_PLACES_MAX 64 /* the root, allow_write, a git directory: a few */

/* Mounts the overlays, notes them in the view, and hides the draft's directory. Call it before caches_mount(), which gives up
 * a capability that it needs. d NULL: there is no draft. Returns 0, or -1 with *err set: then the slot
 * must end. */
int drafts_mount(struct slot_view *v, const Koda__Drafts *d, struct koda_error *err);

/*
 * Is the file on one of the overlays? Then *st gets the device that the kernel's list of sockets
 * reports: stat() reports another one if the draft and the project are on different file systems.
 *
 * An overlay has inodes of its own, and only processes of the slot have it mounted. So whatever is
 * bound there is theirs, and a socket of the host cannot be reached through the layer below.
 */
bool drafts_have(const struct slot_view *v, int fd, struct stat *st);

/* Let commands and file operations that begin now see which names the project has now: see
 * overlay_refresh(). Call it while no command runs. Returns 0, or -1 with errno set. */
int drafts_refresh(struct slot_view *v);

/* Returns what is wrong with the order, or NULL if it is valid. */
const char *drafts_valid(const Koda__Drafts *d);

#endif
