/*
 * The process that makes what stage2/links was asked for, one after the other. It shares memory with pid 1: the queue, and
 * which directories are which. Pid 1 writes that table, between two odd generations; what is judged by a table that was
 * written meanwhile is judged again.
 */
#ifndef KODA_STAGE2_LINK_MAKE_H
#define KODA_STAGE2_LINK_MAKE_H

#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdint.h>

#include "stage2/links.h"

#define LINKS_WRITABLE_MAX 1100 /* of Boot, and some */

struct link_dir {
	uint64_t dev, ino;
	bool plain; /* only regular files and directories are made in it */
};

struct links_shared {
	_Atomic(uint64_t) generation; /* odd: being written */
	size_t n_dirs;
	struct link_dir dir[STAGE2_MOUNTS_MAX + LINKS_WRITABLE_MAX]; /* by dev and ino, each once */
	/* Requests: pid 1 counts `asked`; the other two are counted when there is nothing more to be made, and nothing more to
	 * be said, for the oldest one. */
	_Atomic(uint64_t) asked, made, answered;
	_Atomic(uint64_t) untold; /* refusals that found no room */
	struct seccomp_notif request[LINKS_QUEUE_MAX];
};

/* Where that process has what it needs. */
enum { LINK_LISTENER_FD = 3, LINK_WAKE_FD, LINK_REFUSED_FD, LINK_FDS_END };

int link_dir_order(const void *a, const void *b);

_Noreturn void link_make_serve(struct links_shared *shared);

#endif
