/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads every process of the slot from /proc, and stops and continues all of them except pid 1. For
 * stopped processes the result is current; for others it may be out of date.
 */
#ifndef KODA_STAGE2_PROCS_H
#define KODA_STAGE2_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
	pid_t pid, parent, group;
	pid_t foreground; /* foreground group of its terminal; -1: none */
	char state;       /* as in /proc */
	long threads;
	uint64_t start; /* when it was started, in clock ticks */
	uint64_t vsize; /* bytes of its address space */
	/* Bytes of its address space that are in memory. */
	uint64_t resident;
	/* Address where its stack begins; 0: unknown. */
	uint64_t stack;
	/* Bytes that it had when it was first seen. Set by growth_note(). */
	uint64_t first;
	/* Bytes that certainly are its own. Set by usage_least(). */
	uint64_t least;
	/* It may have shared memory whose size is not visible. Set by usage_exact(). */
	bool shares;
	bool mark;
};

struct procs {
	struct proc *v;
	size_t n, size;
};

#define PROCS_EMPTY                                                                                \
	{                                                                                          \
		NULL, 0, 0                                                                         \
	}

/* Read all processes into *ret, reusing its memory. Returns 0, or -1 with errno. */
int procs_read(int proc_fd, struct procs *ret);
void procs_done(struct procs *p);

/* Read one process. Returns false if it is gone. */
bool procs_one(int proc_fd, pid_t pid, struct proc *ret);

/* Returns true if the process has ended or was sent SIGKILL. In the second case the kernel may
 * not have ended it yet. */
bool procs_is_dying(int proc_fd, pid_t pid);

/* Mark all descendants of marked processes. */
void procs_mark_descent(struct procs *p);

/* Time in which all processes should have stopped. A process that has not stopped by then is
 * waiting for a processor and runs none of its own code before it stops, but a system call that
 * it is in may still be carried out. */
#define PROCS_STOP_US 10000

/* Stop all processes except this one and read them: *ret has all of them, and those that were
 * stopped before are marked. Callers with something more urgent than this wait call the two steps
 * themselves: procs_stop_begin(), procs_stop_wait_for_all(). All return 0, or -1 with errno. */
int procs_stop(int proc_fd, struct procs *ret);
int procs_stop_begin(void);
/* On a busy machine the last of many threads may take some time to stop. */
#define PROCS_AWAKE_US 1000000
struct stage2;
/* Waits like procs_stop(), but nothing is left running: a process that still runs after
 * PROCS_AWAKE_US without a pending SIGSTOP must have been sent SIGCONT, and is killed. Children
 * of pid 1 for which is_ours() returns true are ignored. Also returns -1 if killing does not get
 * rid of all such processes (EBUSY). */
int procs_stop_wait_for_all(int proc_fd, struct procs *ret,
    bool (*is_ours)(const struct stage2 *, pid_t), const struct stage2 *s);
/* Continue all processes except pid 1 and the marked ones. */
void procs_go_on(const struct procs *p);

#endif
