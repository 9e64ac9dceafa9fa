/*
 * The private places of the view (/tmp, /dev/shm, the runtime directory ...). They are directories of one file system in
 * memory, so that one size bounds all of them together, and they cover the file systems that bwrap mounts there.
 *
 * What bwrap has bound below such a place (the project, the home directory) is mounted again, and the directories that
 * lead to it are read-only: a file that a command made there, beside the project, would exist for commands only.
 */
#ifndef KODA_STAGE2_PRIVATE_H
#define KODA_STAGE2_PRIVATE_H

#include "stage2/stage2.h"

#define PRIVATE_PLACES_MAX 16

#define PRIVATE_BYTES_MIN (1u << 20) /* of the file system if Boot names no private place */

/* Once, after view_new(), with its file system. 0, or -1 with *err set. */
int private_mount(int memory_fd, const Koda__Boot *boot, struct koda_error *err);

/* Make /dev and /run read-only, which are bwrap's file systems and have no size; mounts below them stay as they are. At the
 * end of booting. 0, or -1 with *err set. */
int private_seal(struct koda_error *err);

#endif
