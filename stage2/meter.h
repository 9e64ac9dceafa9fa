/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc and the private file systems say of the slot's memory: of the machine, of a process,
 * of objects of shared memory. stage2/usage adds it up.
 */
#ifndef KODA_STAGE2_METER_H
#define KODA_STAGE2_METER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "stage2/growth.h"
#include "stage2/procs.h"

#define METER_PLACES_MAX 8 /* The view has five private file systems. */
/* How much text of smaps one exact measurement reads: some 16,000 mappings, in about 50 ms. For
 * what it does not read, the highest possible value counts. */
#define METER_SMAPS_MAX (8u << 20)
/* How many objects of shared memory one measurement tells apart, and how many descriptors it
 * checks. */
#define METER_OBJECTS_MAX     1024
#define METER_DESCRIPTORS_MAX 65536

struct meter_object {
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
	} place[METER_PLACES_MAX];
	size_t n_places;
	/* The part of the machine's shared memory that is not the slot's. */
	uint64_t shmem_base;
	struct meter_object *objects;
	size_t n_objects;
	/* What is left to read in one exact measurement. */
	size_t smaps_left, descriptors_left;
};

/* Values for the whole machine. */
struct meter_machine {
	/* taken: by processes, and as shared memory */
	uint64_t taken, shmem, swapped, last_pid;
};

/* Prepare *m. places are the private file systems of the slot; those that do not exist are left
 * out. proc_fd stays the caller's. Returns 0, or -1 with *err set. */
int meter_init(struct meter *m, int proc_fd, const char *const *places, size_t n,
    struct koda_error *err);
void meter_done(struct meter *m);

/* Returns 0, or -1 if the machine's memory cannot be read. */
int meter_machine(struct meter *m, struct meter_machine *ret);
/* Returns the bytes in the private file systems. */
uint64_t meter_places(const struct meter *m);
/* Returns the bytes of System V segments. They exist without a process. */
uint64_t meter_segments(const struct meter *m);

/* Returns the resident bytes of a process. */
uint64_t meter_resident(const struct meter *m, const struct proc *p);
/* Returns the bytes of its memory that are neither of files nor shared memory. */
uint64_t meter_anonymous(const struct meter *m, const struct proc *p);

/* Begins an exact measurement: forgets all objects. */
void meter_begin(struct meter *m);
/* Returns the process's own memory, and adds its part of shared memory to the objects. Sets
 * p->shares if it may have shared memory whose size is not visible. */
uint64_t meter_process(struct meter *m, struct proc *p);
/* Returns the bytes of all objects that were found. */
uint64_t meter_objects(const struct meter *m);

#endif
