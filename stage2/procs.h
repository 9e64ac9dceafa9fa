/*
 * Every process of the slot, read off /proc, and stopping all of them but pid 1 and letting them go on. What is read
 * is true of processes that are stopped; of others it was.
 */
#ifndef KODA_STAGE2_PROCS_H
#define KODA_STAGE2_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
	pid_t pid, parent, group;
	pid_t foreground; /* group of its terminal; -1: none */
	char state;       /* as /proc says it */
	long threads;
	uint64_t vsize;    /* bytes of its address space */
	uint64_t resident; /* bytes of the memory that it has in it */
	uint64_t stack;    /* where its stack begins; 0: it is not known */
	uint64_t least;    /* bytes that are surely its own; usage_least() sets it */
	bool shares; /* it may have shared memory whose size is not seen; usage_exact() sets it */
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

/* Has the process ended, or was it sent SIGKILL? The kernel may not have ended it yet. */
bool procs_is_dying(int proc_fd, pid_t pid);

/* Mark what descends from those that are marked. */
void procs_mark_descent(struct procs *p);

/* Until everybody has noticed that he is stopped. Who has not by then waits for a processor, and does nothing of his
 * own before he has; but a call that he is in may still be carried out. */
#define PROCS_STOP_US 10000

/* Stop all but us, and then look: *ret is everybody, with a mark on who was stopped before. In two steps for whom there is
 * something more urgent than that everybody has noticed. */
int procs_stop(int proc_fd, struct procs *ret);
int procs_stop_begin(void);
int procs_stop_wait(int proc_fd, struct procs *ret);
/* The same, and nobody is awake afterwards: who still is after PROCS_AWAKE_US, and has no SIGSTOP to take, was woken up by
 * somebody with SIGCONT, and is killed. -1 also when there is no end of them. Whom is_ours speaks for does not matter. */
/* Of many threads on a busy machine the last one may take some time. */
#define PROCS_AWAKE_US 1000000
struct stage2;
int procs_stop_wait_for_all(int proc_fd, struct procs *ret,
    bool (*is_ours)(const struct stage2 *, pid_t), const struct stage2 *s);
/* Let all go on but those that are marked. */
void procs_go_on(const struct procs *p);

#endif
