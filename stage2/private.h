/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private places of the view (/tmp, /dev/shm, the runtime directory ...). They are directories
 * of one file system in memory, so that one size limits all of them together, and they cover the
 * file systems that bwrap mounts there.
 *
 * What bwrap has bound below such a place (the project, the home directory) is mounted again. The
 * directories that lead to it are read-only: a file that a command made in one of them, beside the
 * project, would exist for commands only.
 */
#ifndef KODA_STAGE2_PRIVATE_H
#define KODA_STAGE2_PRIVATE_H

#include "stage2/stage2.h"

#define PRIVATE_PLACES_MAX 16

/* Size of the file system if Boot names no private place. */
#define PRIVATE_BYTES_MIN (1u << 20)

/* Mount the private places of Boot. Call it once, after view_new(), with the file system of the
 * view. Returns 0, or -1 with *err set. */
int private_mount(int memory_fd, const Koda__Boot *boot, struct koda_error *err);

/* Make /dev and /run read-only, which are file systems of bwrap without a size limit. Mounts
 * below them stay as they are. Call it at the end of booting. Returns 0, or -1 with *err set. */
int private_seal(struct koda_error *err);

#endif
