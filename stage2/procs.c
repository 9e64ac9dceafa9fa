/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* Only the first fields are needed; the name among them has at most 64 bytes. */
#define STAT_SIZE 1024

/* "pid (name) state parent group session terminal foreground ...", and the name may contain any
 * characters. */
static bool
parse_stat(const char *text, struct proc *ret)
{
	const char *p = strrchr(text, ')');
	int parent, group, session, terminal, foreground;
	unsigned long start, vsize, pages, stack;
	long threads;
	char state;

	if (p == NULL ||
	    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	    sscanf(p + 1,
		" %c %d %d %d %d %d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %*d %ld %*d %lu %lu %lu %*u %*u %*u %lu",
		&state, &parent, &group, &session, &terminal, &foreground, &threads, &start, &vsize,
		&pages, &stack) != 11)
		return false;
	*ret = (struct proc){
		.pid = (pid_t)strtol(text, NULL, 10),
		.parent = parent,
		.group = group,
		.foreground = foreground,
		.state = state,
		.threads = threads,
		.start = start,
		.vsize = vsize,
		.resident = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.stack = stack,
	};
	return true;
}

static bool
read_stat(int proc_fd, const char *pid, struct proc *ret)
{
	char path[32], text[STAT_SIZE];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%.16s/stat", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return parse_stat(text, ret);
}

bool
procs_one(int proc_fd, pid_t pid, struct proc *ret)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", pid);
	return read_stat(proc_fd, name, ret);
}

int
procs_read(int proc_fd, struct procs *ret)
{
	cleanup_close int dir = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buf[8192] __attribute__((aligned(8)));
	long got;

	ret->n = 0;
	if (dir < 0)
		return -1;
	while ((got = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < got;) {
			const struct dirent64 *e = (const void *)(buf + at);

			at += e->d_reclen;
			if (e->d_name[0] < '1' || e->d_name[0] > '9')
				continue;
			if (ret->n == ret->size) {
				size_t size = ret->size == 0 ? 64 : ret->size * 2;
				struct proc *v = realloc(ret->v, size * sizeof(*v));

				if (v == NULL)
					return -1;
				ret->v = v;
				ret->size = size;
			}
			if (read_stat(proc_fd, e->d_name, &ret->v[ret->n]))
				ret->n++;
		}
	}
	return got < 0 ? -1 : 0;
}

void
procs_done(struct procs *p)
{
	free(p->v);
	*p = (struct procs)PROCS_EMPTY;
}

static struct proc *
find_process(const struct procs *p, pid_t pid)
{
	/* /proc lists processes in ascending order. */
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->v[middle].pid == pid)
			return &p->v[middle];
		if (p->v[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

void
procs_mark_descent(struct procs *p)
{
	bool more = true;

	/* Numbers mostly grow from parent to child, so a second pass mostly finds nothing. */
	while (more) {
		more = false;
		for (size_t i = 0; i < p->n; i++) {
			const struct proc *parent =
			    p->v[i].mark ? NULL : find_process(p, p->v[i].parent);

			if (parent != NULL && parent->mark)
				p->v[i].mark = more = true;
		}
	}
}

/* ---- stopping ---- */

#define STOP_STEP_US 20
#define STATUS_SIZE  4096
/* A killed process is gone after the next round, and a process that forks meanwhile can do so
 * only a few times. */
#define AWAKE_ROUNDS_MAX 64

/* Returns true if it runs none of its own code any more. D: it is in the kernel, and stops when
 * it leaves it. */
static bool
is_still(char state)
{
	return strchr("TtZXxD", state) != NULL;
}

static bool
threads_are_still(int proc_fd, pid_t pid)
{
	struct procs threads = PROCS_EMPTY;
	bool still = true;
	char path[32];
	int dir;

	snprintf(path, sizeof(path), "%d/task", pid);
	dir = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return true;
	if (procs_read(dir, &threads) == 0)
		for (size_t i = 0; i < threads.n; i++)
			still = still && is_still(threads.v[i].state);
	procs_done(&threads);
	close(dir);
	return still;
}

static bool
all_are_still(int proc_fd, const struct procs *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].pid != 1 &&
		    (!is_still(p->v[i].state) ||
			(p->v[i].threads > 1 && !threads_are_still(proc_fd, p->v[i].pid))))
			return false;
	return true;
}

/* Returns true if this line of /proc/PID/status has the signal as pending. Returns false if the
 * process is gone. */
static bool
is_pending(int proc_fd, pid_t pid, const char *line, int signo)
{
	char path[32], text[STATUS_SIZE];
	cleanup_close int fd = -1;
	const char *at;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/status", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strstr(text, line);
	return at != NULL && (strtoull(at + strlen(line), NULL, 16) >> (signo - 1) & 1) != 0;
}

/* Returns true if a SIGSTOP is pending for the whole process. One for its first thread alone
 * does not count: that thread may be gone while the others continue. */
static bool
stop_is_pending(int proc_fd, const struct proc *p)
{
	return is_pending(proc_fd, p->pid, "\nShdPnd:", SIGSTOP);
}

bool
procs_is_dying(int proc_fd, pid_t pid)
{
	struct proc p;

	return !procs_one(proc_fd, pid, &p) || p.state == 'Z' || p.state == 'X' ||
	    is_pending(proc_fd, pid, "\nShdPnd:", SIGKILL) ||
	    is_pending(proc_fd, pid, "\nSigPnd:", SIGKILL);
}

/*
 * Returns true if it was stopped before us. Then our SIGSTOP is still pending, because a stopped
 * process takes no signal; a process that was running has taken it. (Checking before stopping would
 * miss a process that is stopped in between.)
 */
static bool
was_stopped(int proc_fd, const struct proc *p)
{
	/* In state 't' its tracer handles the pending signals, now or later. */
	return p->state == 'T' && stop_is_pending(proc_fd, p);
}

int
procs_stop_begin(void)
{
	/* A single call, before anything is read: no process is forked meanwhile. */
	return kill(-1, SIGSTOP) < 0 && errno != ESRCH ? -1 : 0;
}

static int
wait_until_still(int proc_fd, struct procs *ret)
{
	/* Sleep instead of yielding: a process that is to stop may need this processor to do so. */
	const struct timespec step = { 0, STOP_STEP_US * 1000 };
	uint64_t until;

	until = monotonic_us() + PROCS_STOP_US;
	for (;;) {
		if (procs_read(proc_fd, ret) < 0) {
			/* It is better to continue all processes, even those that should stay
			 * stopped, than to leave the whole slot stopped. */
			procs_done(ret);
			kill(-1, SIGCONT);
			return -1;
		}
		if (all_are_still(proc_fd, ret) || monotonic_us() >= until)
			break;
		nanosleep(&step, NULL);
	}
	for (size_t i = 0; i < ret->n; i++)
		ret->v[i].mark = was_stopped(proc_fd, &ret->v[i]);
	return 0;
}

int
procs_stop(int proc_fd, struct procs *ret)
{
	return procs_stop_begin() < 0 ? -1 : wait_until_still(proc_fd, ret);
}

/* Count the processes that a command may have sent SIGCONT and that have to be stopped; with
 * `end`, kill them. */
static size_t
count_awake(int proc_fd, const struct procs *p, bool (*is_ours)(const struct stage2 *, pid_t),
    const struct stage2 *s, bool end)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct proc *one = &p->v[i];

		if (one->pid == 1 || (one->parent == 1 && is_ours(s, one->pid)) ||
		    (is_still(one->state) &&
			(one->threads <= 1 || threads_are_still(proc_fd, one->pid))))
			continue;
		/* It is waiting for a processor, and stops before it does anything. */
		if (stop_is_pending(proc_fd, one))
			continue;
		n++;
		if (end)
			kill(one->pid, SIGKILL);
	}
	return n;
}

int
procs_stop_wait_for_all(int proc_fd, struct procs *ret,
    bool (*is_ours)(const struct stage2 *, pid_t), const struct stage2 *s)
{
	uint64_t until = monotonic_us() + PROCS_AWAKE_US;

	do {
		if (wait_until_still(proc_fd, ret) < 0)
			return -1;
		if (count_awake(proc_fd, ret, is_ours, s, false) == 0)
			return 0;
	} while (monotonic_us() < until);
	for (int round = 0; round < AWAKE_ROUNDS_MAX; round++) {
		if (count_awake(proc_fd, ret, is_ours, s, true) == 0)
			return 0;
		if (wait_until_still(proc_fd, ret) < 0)
			return -1;
	}
	errno = EBUSY;
	return -1;
}

void
procs_go_on(const struct procs *p)
{
	/* Continue children before their parents, so that no shell finds its job stopped. */
	for (size_t i = p->n; i > 0; i--)
		if (p->v[i - 1].pid != 1 && !p->v[i - 1].mark)
			kill(p->v[i - 1].pid, SIGCONT);
}
