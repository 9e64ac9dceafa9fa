/*
 * What the slot uses: the memory of all its processes together (shared memory counted once), what
 * is in its private file systems, and the number of tasks (processes and threads). File pages that
 * the kernel can drop do not count.
 *
 * There are three measurements. usage_bound() is cheap, and never too low for what is in an address
 * space. usage_least() is nearly as cheap, and never too high. usage_exact() shares out what
 * several processes have in common. If the slot has shared memory or a socket, the growth of the
 * machine's shared memory counts too, except in usage_least(): an object may be partly unmapped, or
 * on its way through a socket. None of them sees the kernel's own memory: buffers of sockets, page
 * tables.
 */
#ifndef KODA_STAGE2_USAGE_H
#define KODA_STAGE2_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "stage2/growth.h"
#include "stage2/procs.h"

#define USAGE_PLACES_MAX 8 /* The view has five private file systems. */

/* How much text of smaps one exact measurement reads: some 16,000 mappings, in about 50 ms. For
 * what it does not read, the highest possible value counts. */
#define USAGE_SMAPS_MAX (8u << 20)
/* How many objects of shared memory one measurement tells apart, and how many descriptors it
 * checks. */
#define USAGE_OBJECTS_MAX     1024
#define USAGE_DESCRIPTORS_MAX 65536

/* A process is small if it has less than this part of the limit. usage_least() skips small
 * processes, so that hundreds of them do not delay measuring the large ones. */
#define USAGE_SMALL_SHARE 64

struct usage {
	uint64_t bytes, tasks;
	/* Of the bytes: in private file systems, where they stay when processes end. */
	uint64_t kept;
	/* Of the bytes: of processes that still existed at the end. Set by usage_exact(). */
	uint64_t sure;
};

struct usage_object {
	/* held: known from a descriptor, and the size of the whole object. */
	uint64_t ino, mapped, held;
};

struct meter {
	int proc_fd;
	int meminfo_fd, loadavg_fd;
	struct growth growth;
	/* The device of memfds and shared anonymous memory. */
	dev_t shared_dev;
	struct {
		int fd;
	} place[USAGE_PLACES_MAX];
	size_t n_places;
	/* The part of the machine's shared memory that is not the slot's. */
	uint64_t shmem_base;
	struct usage_object *objects;
	size_t n_objects;
	/* What is left to read in one exact measurement. */
	size_t smaps_left, descriptors_left;
};

/* Values for the whole machine. */
struct usage_machine {
	/* taken: by processes, and as shared memory */
	uint64_t taken, shmem, swapped, last_pid;
};

/* Prepare *m. places are the private file systems of the slot; those that do not exist are left
 * out. proc_fd stays the caller's. Returns 0, or -1 with *err set. */
int meter_init(struct meter *m, int proc_fd, const char *const *places, size_t n,
    struct koda_error *err);
void meter_done(struct meter *m);

int usage_machine(struct meter *m, struct usage_machine *ret);

/*
 * These measure the processes in *p for which counts() is true.
 *
 * usage_exact() begins with the largest process and stops when it is clear whether the slot is over
 * the limit. It sets the `resident` of each process that it measured to its share. A process that
 * ends during the measurement counts with all that it had, because it may have passed that on to a
 * process that is not in *p. So `bytes` can be too high; `sure` cannot.
 *
 * usage_least() sets the `least` of each process that is not small: its memory that is neither of
 * files nor shared memory. Two processes have such memory in common only if they were forked from
 * the same process and have not called execve since. Then their stacks begin at the same address,
 * which execve chooses at random. So of the processes with the same address only the largest
 * counts, or what each has taken since usage_bound() or usage_least() first saw it.
 */
typedef bool usage_counts_fn(void *data, const struct proc *p);
void usage_bound(struct meter *m, const struct usage_machine *machine, struct procs *p,
    usage_counts_fn *counts, void *data, struct usage *ret);
void usage_least(struct meter *m, const struct usage_machine *machine, struct procs *p,
    uint64_t limit, usage_counts_fn *counts, void *data, struct usage *ret);
void usage_exact(struct meter *m, const struct usage_machine *machine, struct procs *p,
    uint64_t limit, usage_counts_fn *counts, void *data, struct usage *ret);

#endif
