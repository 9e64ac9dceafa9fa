/*
 * One command, from the order to execve. Three processes take part: pid 1 writes the order into a slot of memory that
 * it shares with the template; the template clones a reaper, which becomes a child of pid 1; the reaper is a subreaper,
 * clones the command and waits for it. What happened stands in the slot, so nobody has to be asked.
 *
 * The reaper runs in the template's memory and the command does until execve, on stacks of their own: copying page
 * tables is most of what a fork costs. So nothing in there may use what one C library has for the whole process (errno,
 * malloc, stdio), and all that both sides write is in the slot.
 *
 * Reaper and template are not dumpable: a command, which runs as the same user in the same Landlock domain, can kill
 * them and learns nothing by it (reap.c finds what they leave), but it can neither read nor change them.
 */
#ifndef KODA_STAGE2_EXEC_H
#define KODA_STAGE2_EXEC_H

#include <limits.h>
#include <sys/resource.h>

#include "stage2/stage2.h"

#define EXEC_LIMITS_MAX RLIM_NLIMITS
#define EXEC_PAGE       4096 /* what is given back starts at one; larger ones are multiples */
#define EXEC_DATA                                                                                  \
	(2u << 20) /* a frame, and a pointer for each string of usual length; more is E2BIG */

/* How far a command got; each value is written by one process only, and only ever grows. */
enum exec_state {
	EXEC_ORDERED,  /* pid 1 */
	EXEC_LAUNCHED, /* its reaper: execve has happened, or has not been reached */
	EXEC_DONE,     /* its reaper: status is that of the first process */
};

struct exec_slot {
	/* The order. */
	bool tty, background;
	size_t n_limits;
	struct exec_limit {
		int resource;
		struct rlimit64 value;
	} limit[EXEC_LIMITS_MAX];
	const char *cwd, *path; /* path: of the environment of the command */
	char **argv;            /* has room for one before it */
	char **envp;
	/* What came of it. */
	_Atomic(int) state;
	_Atomic(pid_t) reaper, command; /* as pid 1 knows them; 0 until they are there */
	_Atomic(int) step;              /* Koda__FailedStep, or 0 */
	int errnum;
	int status;
	bool left; /* the reaper ended while there were others */
	char candidate[PATH_MAX];
	size_t used;
	/* Strings, and pointers to them. */
	char data[EXEC_DATA] __attribute__((aligned(16)));
} __attribute__((aligned(EXEC_PAGE)));

/* STAGE2_COMMANDS_MAX of them, shared with every process that is forked from now on, at the same address. */
struct exec_slot *exec_slots_new(struct koda_error *err);

/* Is it an order that makes sense? What is wrong, or NULL. */
const char *exec_valid(const Koda__Exec *order);

/* Copies a valid order. -1: it is too large (E2BIG). */
int exec_fill(struct exec_slot *slot, const Koda__Exec *order);
/* Nothing of it is left: gives memory back. */
void exec_clear(struct exec_slot *slot);

/* What pid 1 sends the template: this, with standard input, output and error. */
struct exec_request {
	unsigned slot;
};

/* The template's life: serve fd until it ends. Descriptors 0 to 2 have to be closed. */
_Noreturn void exec_serve(int fd, struct exec_slot *slots);

#endif
