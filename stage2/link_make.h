/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that carries out the requests to stage2/links, one after the other. It shares memory
 * with pid 1: the queue, and the table of known directories. Pid 1 writes that table and makes the
 * generation odd while it does so; a verdict from a table that was written meanwhile is made again.
 */
#ifndef KODA_STAGE2_LINK_MAKE_H
#define KODA_STAGE2_LINK_MAKE_H

#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdint.h>

#include "stage2/stage2.h"

/* Requests that may wait at the same time. A thread has at most one; further callers get ENOMEM. */
#define LINKS_QUEUE_MAX    1024
#define LINKS_WRITABLE_MAX 1100 /* those of Boot, and some spare ones */

struct link_dir {
	uint64_t dev, ino;
	bool plain; /* only regular files and directories may be made in it */
};

struct links_shared {
	_Atomic(uint64_t) generation; /* odd: the table is being written */
	size_t n_dirs;
	/* Sorted by dev and ino, each directory once. */
	struct link_dir dir[STAGE2_MOUNTS_MAX + LINKS_WRITABLE_MAX];
	/*
	 * Counters of requests. Pid 1 increments `asked`. The process increments `made` when it has
	 * nothing more to make for the oldest request, and `answered` when it has nothing more to
	 * report for it.
	 */
	_Atomic(uint64_t) asked, made, answered;
	_Atomic(uint64_t) untold; /* refusals that could not be queued for a report */
	struct seccomp_notif request[LINKS_QUEUE_MAX];
};

/* Descriptors of that process. */
enum { LINK_LISTENER_FD = 3, LINK_WAKE_FD, LINK_REFUSED_FD, LINK_FDS_END };

int link_dir_order(const void *a, const void *b);

_Noreturn void link_make_serve(struct links_shared *shared);

#endif
