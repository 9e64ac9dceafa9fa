/*
 * What the slot uses: the memory of all its processes together, shared memory once, what lies in its private file
 * systems, and how many tasks (processes and threads) there are. File pages that the kernel can drop are not counted.
 *
 * Three measurements: usage_bound() is cheap, and never too low for what is in an address space; usage_least() is nearly
 * as cheap, and never too high; usage_exact() shares out what several processes have in common. Where the slot has shared
 * memory or a socket, what the machine's shared memory grew by counts too, but for usage_least(): an object may be
 * unmapped in part, or under way in a socket. What none of them sees is the kernel's own memory: sockets' buffers, page
 * tables.
 */
#ifndef KODA_STAGE2_USAGE_H
#define KODA_STAGE2_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "stage2/procs.h"

#define USAGE_PLACES_MAX 8 /* the view has five private file systems */

/* Text of smaps that one exact measurement reads: some 16,000 mappings, in about 50 ms. What is not read is counted as
 * high as it can be. */
#define USAGE_SMAPS_MAX (8u << 20)
/* Objects of shared memory that are told apart, and the descriptors that one measurement looks at. */
#define USAGE_OBJECTS_MAX     1024
#define USAGE_DESCRIPTORS_MAX 65536

/* A process is small when it has less than this part of the limit. usage_least() passes over those, so that hundreds of
 * them do not hold up the look at the large ones. */
#define USAGE_SMALL_SHARE 64

struct usage {
	uint64_t bytes, tasks;
	uint64_t
	    kept; /* of the bytes: in private file systems, where they stay when processes end */
	uint64_t
	    sure; /* of the bytes: of processes that were still there at the end; usage_exact() sets it */
};

struct usage_object {
	uint64_t ino, mapped, held; /* held: known from a descriptor, all of it */
};

struct meter {
	int proc_fd;
	int meminfo_fd, loadavg_fd;
	dev_t shared_dev; /* where memfds and shared anonymous memory are */
	struct {
		int fd;
	} place[USAGE_PLACES_MAX];
	size_t n_places;
	uint64_t shmem_base; /* of the machine's shared memory: not ours */
	struct usage_object *objects;
	size_t n_objects;
	/* Of one exact measurement. */
	size_t smaps_left, descriptors_left;
};

/* The machine's. */
struct usage_machine {
	uint64_t taken, shmem, swapped, last_pid; /* taken: by processes, and as shared memory */
};

/* Private file systems of the slot; what is not there is left out. Takes nothing over. */
int meter_init(struct meter *m, int proc_fd, const char *const *places, size_t n,
    struct koda_error *err);
void meter_done(struct meter *m);

int usage_machine(struct meter *m, struct usage_machine *ret);

/*
 * Of the processes in *p for which counts() is true. usage_exact() begins with the largest and stops when the limit is
 * decided; it sets the `resident` of each that it came to, to its share. A process that ends meanwhile counts with all
 * that it had, because it may have handed that on to one that is not in *p. So `bytes` can be too high; `sure` is not.
 * usage_least() sets the `least` of each that is not small: its memory that is neither of files nor shared memory. Two processes have such
 * memory in common only if they were forked from the same one and have executed nothing since. Then their stacks begin at
 * the same address, which execve chooses at random. Of the processes with the same address only the largest counts.
 */
typedef bool usage_counts_fn(void *data, const struct proc *p);
void usage_bound(struct meter *m, const struct usage_machine *machine, struct procs *p,
    usage_counts_fn *counts, void *data, struct usage *ret);
void usage_least(struct meter *m, struct procs *p, uint64_t limit, usage_counts_fn *counts,
    void *data, struct usage *ret);
void usage_exact(struct meter *m, const struct usage_machine *machine, struct procs *p,
    uint64_t limit, usage_counts_fn *counts, void *data, struct usage *ret);

#endif
