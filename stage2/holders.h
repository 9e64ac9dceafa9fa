/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes that hold a replaced object: a file or directory that is protected or to be
 * hidden, and that processes could open until stage2 mounted on it again. They hold it as a
 * descriptor, a mapping, a working directory, or a descriptor that waits in a socket.
 */
#ifndef KODA_STAGE2_HOLDERS_H
#define KODA_STAGE2_HOLDERS_H

#include "stage2/procs.h"
#include "stage2/stage2.h"

struct replaced {
	size_t entry;
	uint64_t dev[2], ino[2]; /* before the replacement, and now */
	bool directory;          /* it is a directory now */
	bool content;            /* its content is protected, not only its name */
	bool hidden;             /* also protected against reading */
	bool again;              /* it was hidden before, until no command ran */
	bool came;               /* it never existed before */
};

struct replacements {
	struct replaced *v;
	size_t n;
};

/*
 * Sends SIGKILL to each process that holds one of `all`. All processes in `who` must be stopped.
 * Returns how many were killed.
 */
uint64_t holders_end(const struct stage2 *s, const struct replacements *all,
    const struct procs *who);

#endif
