/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can directories have a draft on this machine? What the kernel would refuse, or accept without
 * keeping its promises, is refused before, with the reason and what to do about it. Tests:
 * tests/integration/draft_fallback_test.c.
 */
#ifndef KODA_HOST_DRAFT_FIT_H
#define KODA_HOST_DRAFT_FIT_H

#include "host/draft/store.h"

#define DRAFT_FIT_NEEDS                                                                            \
	"Linux 5.11 or newer with overlayfs, and XDG_STATE_HOME on a file system of the machine, " \
	"with extended attributes for users (ext4, xfs, btrfs)"

/*
 * The directories that the draft covers. state: koda's own directory, which the draft is in.
 * An ordinary user cannot make an overlay of a directory that contains a mount, or of one that
 * contains the draft. Returns 0, or -1 with *err set.
 */
int draft_fit_directories(const char *state, const char *const *dirs, size_t n,
    struct koda_error *err);

/*
 * A draft that was made. Without extended attributes for users the kernel mounts an overlay, but a
 * directory that was removed and made again would show its old content. Returns 0, or -1 with *err
 * set.
 */
int draft_fit_layers(const char *state, const struct draft *d, struct koda_error *err);

/* The remedy if the kernel refuses the overlay. */
void draft_fit_kernel_remedy(char *ret, size_t size);

/* Adds to the message of a draft that could not be made what the user can do about it. Returns
 * -1. */
int draft_fit_remedy(struct koda_error *err, const char *state);

#endif
