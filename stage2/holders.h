/*
 * Which processes hold what was replaced: it was protected or is to be hidden, and until the mount was made again it
 * could be opened. A descriptor, a mapping, a working directory, a descriptor that waits in a socket.
 */
#ifndef KODA_STAGE2_HOLDERS_H
#define KODA_STAGE2_HOLDERS_H

#include "stage2/procs.h"
#include "stage2/stage2.h"

struct replaced {
	size_t entry;
	uint64_t dev[2], ino[2]; /* before, and now */
	bool directory;          /* now */
	bool content;            /* its content is protected, not only its name */
	bool hidden;             /* against reading as well */
	bool again;              /* it was hidden already, until no command ran */
	bool came;               /* it was never there before */
};

struct replacements {
	struct replaced *v;
	size_t n;
};

/* SIGKILL for each process that holds one of them. All are stopped. Returns how many. */
uint64_t holders_end(const struct stage2 *s, const struct replacements *all,
    const struct procs *who);

#endif
