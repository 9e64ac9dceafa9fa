/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a socket of the slot's network namespace is bound to an inode, with the
 * kernel's list of sockets (unix_diag). It knows neither callers nor paths.
 */
#ifndef KODA_STAGE2_BOUND_SOCKETS_H
#define KODA_STAGE2_BOUND_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "shared/base/err.h"

/* States of sockets, as bits. */
#define BOUND_LISTENING (1u << 10) /* TCP_LISTEN */
#define BOUND_CLOSED    (1u << 7)  /* TCP_CLOSE: bound, and does not listen */

struct bound_sockets {
	int fd; /* unix_diag, in the slot's network namespace */
	uint32_t seq;
	uint64_t look_from; /* ms; not asked before */
};

/* Returns 0, or -1 with *err set. */
int bound_sockets_init(struct bound_sockets *b, struct koda_error *err);
void bound_sockets_done(struct bound_sockets *b);

/*
 * Returns false for some time after the slot had so many sockets that a question took too long. Then
 * do not ask.
 */
bool bound_sockets_may_ask(const struct bound_sockets *b);

/*
 * Do unix_diag and the file system of fd use the same numbers for the same inode? The kernel reports
 * 32 bits of the inode number, so on that file system neither the requested socket nor any that
 * could be mistaken for it may have a larger one. It reports the superblock's device, which on btrfs
 * and overlayfs differs from stat(). On other file systems a socket of the host could be made to
 * look like one of the slot, so nothing on them is reached by path. The slot's private directories
 * are tmpfs.
 */
bool bound_sockets_are_exact(int fd, const struct stat *st);

/*
 * Returns true if a socket in one of these states is bound to that inode. False also if the kernel
 * does not answer.
 */
bool bound_sockets_has(struct bound_sockets *b, unsigned states, const struct stat *st);

#endif
