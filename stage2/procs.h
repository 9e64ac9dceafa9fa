/*
 * Every process of the slot, read off /proc, and stopping all of them but pid 1 and letting them go on. What is read
 * is true of processes that are stopped; of others it was.
 */
#ifndef KODA_STAGE2_PROCS_H
#define KODA_STAGE2_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct proc {
	pid_t pid, parent, group;
	pid_t foreground; /* group of its terminal; -1: none */
	char state;       /* as /proc says it */
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

/* 0, or -1 with errno. Keeps its memory from call to call. */
int procs_read(int proc_fd, struct procs *ret);
void procs_done(struct procs *p);

/* One of them; false if it is gone. */
bool procs_one(int proc_fd, pid_t pid, struct proc *ret);

/* Mark what descends from those that are marked. */
void procs_mark_descent(struct procs *p);

/* Stop all; *before is what was there, to know who was stopped already. */
int procs_stop(int proc_fd, struct procs *before);
/* Let all go on but those. */
void procs_go_on(int proc_fd, const struct procs *before);

#endif
