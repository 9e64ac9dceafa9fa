#include "stage2/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "shared/cleanup.h"

#define STAT_SIZE 1024 /* the first fields are what counts; a name in it is 64 bytes at most */

/* "pid (name) state parent group session terminal foreground ...", and the name may hold anything. */
static bool
parse(const char *text, struct proc *ret)
{
	const char *p = strrchr(text, ')');
	int parent, group, session, terminal, foreground;
	char state;

	if (p == NULL ||
	    sscanf(p + 1, " %c %d %d %d %d %d", &state, &parent, &group, &session, &terminal,
		&foreground) != 6)
		return false;
	*ret =
	    (struct proc){ (pid_t)strtol(text, NULL, 10), parent, group, foreground, state, false };
	return true;
}

static bool
read_stat(int proc_fd, const char *pid, struct proc *ret)
{
	char path[32], text[STAT_SIZE];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/stat", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return parse(text, ret);
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
find(const struct procs *p, pid_t pid)
{
	/* /proc lists them in this order. */
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

	/* Numbers mostly grow from parent to child, so the second look mostly finds nothing. */
	while (more) {
		more = false;
		for (size_t i = 0; i < p->n; i++) {
			const struct proc *parent = p->v[i].mark ? NULL : find(p, p->v[i].parent);

			if (parent != NULL && parent->mark)
				p->v[i].mark = more = true;
		}
	}
}

int
procs_stop(int proc_fd, struct procs *before)
{
	if (procs_read(proc_fd, before) < 0)
		return -1;
	return kill(-1, SIGSTOP) < 0 && errno != ESRCH ? -1 : 0;
}

void
procs_go_on(int proc_fd, const struct procs *before)
{
	struct procs now = PROCS_EMPTY;

	/* One that cannot be told from the others goes on with them: better than a slot that stands still. */
	if (procs_read(proc_fd, &now) < 0)
		kill(-1, SIGCONT);
	for (size_t i = 0; i < now.n; i++) {
		const struct proc *was = find(before, now.v[i].pid);

		if (now.v[i].pid != 1 && (was == NULL || was->state != 'T'))
			kill(now.v[i].pid, SIGCONT);
	}
	procs_done(&now);
}
