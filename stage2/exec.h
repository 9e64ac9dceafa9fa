/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one command, from the order to execve. Three processes take part: pid 1 writes the order
 * into a slot of memory that it shares with the template; the template clones a reaper, which
 * becomes a child of pid 1; the reaper is a subreaper, clones the command and waits for it. The
 * result is in the slot, so no process has to be asked for it.
 *
 * The reaper runs in the template's memory, and so does the command until execve, both on stacks of
 * their own: copying page tables is most of the cost of a fork. So this code must not use anything
 * that the C library keeps per process (errno, malloc, stdio), and everything that both sides write
 * is in the slot.
 *
 * Reaper and template are not dumpable. A command runs as the same user in the same Landlock
 * domain, so it can kill them, which gains it nothing (reap.c finds the processes that they leave),
 * but it can neither read nor change them.
 */
#ifndef KODA_STAGE2_EXEC_H
#define KODA_STAGE2_EXEC_H

#include <limits.h>
#include <sys/resource.h>

#include "stage2/stage2.h"

#define EXEC_LIMITS_MAX RLIM_NLIMITS
/* Memory is given back from a page boundary; larger pages are multiples of this. */
#define EXEC_PAGE 4096
/* Room for a frame, and a pointer for each string of usual length; larger: E2BIG. */
#define EXEC_DATA (2u << 20)

/* How far a command got. Each value is written by one process only, and the state only grows. */
enum exec_state {
	EXEC_ORDERED, /* written by pid 1 */
	/* Written by the reaper: execve has succeeded, or the command ended before it. */
	EXEC_LAUNCHED,
	/* Written by the reaper: `status` is that of the command's first process. */
	EXEC_DONE,
};

struct exec_slot {
	/* The order. */
	bool tty, background;
	size_t n_limits;
	struct exec_limit {
		int resource;
		struct rlimit64 value;
	} limit[EXEC_LIMITS_MAX];
	const char *cwd, *path; /* path: PATH of the command's environment */
	char **argv;            /* has room for one entry before it */
	char **envp;
	/* The result. */
	_Atomic(int) state;
	/* As pid 1 numbers them; 0 until they exist. */
	_Atomic(pid_t) reaper, command;
	_Atomic(int) step; /* Koda__FailedStep, or 0 */
	int errnum;
	int status;
	char candidate[PATH_MAX];
	size_t used;
	/* Strings, and pointers to them. */
	char data[EXEC_DATA] __attribute__((aligned(16)));
} __attribute__((aligned(EXEC_PAGE)));

/*
 * Allocates STAGE2_COMMANDS_MAX slots, shared with every process that is forked later, at the same
 * address. Returns NULL with *err set on failure.
 */
struct exec_slot *exec_slots_new(struct koda_error *err);

/* Returns what is wrong with the order, or NULL if it is valid. */
const char *exec_valid(const Koda__Exec *order);

/* Copies a valid order into the slot. Returns 0, or -1 if it is too large (E2BIG). */
int exec_fill(struct exec_slot *slot, const Koda__Exec *order);
/* The command is over: gives memory of the slot back. */
void exec_clear(struct exec_slot *slot);

/* Sent by pid 1 to the template, with standard input, output and error. */
struct exec_request {
	unsigned slot;
};

/* Runs the template: serves fd until it ends. Descriptors 0 to 2 must be closed. */
_Noreturn void exec_serve(int fd, struct exec_slot *slots);

#endif
