/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/strangers.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "stage2/command_table.h"
#include "stage2/links.h"
#include "stage2/procs.h"
#include "stage2/template.h"
#include "stage2/worker.h"

/* Strangers that are left after this many rounds of killing fork faster than stage2 finds them.
 * From then on it stops all processes first. */
#define ROUNDS_MAX 3

bool
strangers_is_helper(const struct stage2 *s, pid_t pid)
{
	return pid == s->template->pid || pid == s->spawner->pid || pid == links_pid(s->links);
}

/* Returns true if pid is a known process of ours. Sets *ret_unsure if the number of some reaper
 * is not known yet, so that an unknown process may be that reaper. */
static bool
is_known(const struct stage2 *s, pid_t pid, bool *ret_unsure)
{
	const struct command_table *c = s->commands;

	if (strangers_is_helper(s, pid) || companions_has(&s->companions, pid))
		return true;
	for (unsigned i = 0; i < c->end; i++) {
		pid_t reaper;

		if (!c->command[i].used || c->command[i].over)
			continue;
		reaper = c->slots[i].reaper;
		if (reaper == pid)
			return true;
		if (reaper == 0 && c->slots[i].step == 0)
			*ret_unsure = true;
	}
	return false;
}

bool
strangers_is_ours(const struct stage2 *s, pid_t pid)
{
	bool unsure = false;

	return is_known(s, pid, &unsure) || unsure;
}

/*
 * Read the kernel's list of our children, which only we shorten (by waiting) and which grows at its
 * end, so it is complete. Returns 1 if one of them is a stranger, 0 if none is, -1 if that is not
 * known now.
 */
static int
find_in_list(struct stage2 *s)
{
	char buf[4096];
	bool unsure = false, strange = false;
	off_t at = 0;
	long pid = 0;
	ssize_t n;

	while ((n = pread(s->commands->children_fd, buf, sizeof(buf), at)) > 0) {
		at += n;
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] >= '0' && buf[i] <= '9') {
				pid = pid * 10 + (buf[i] - '0');
			} else if (pid != 0) {
				strange = strange || !is_known(s, (pid_t)pid, &unsure);
				pid = 0;
			}
		}
	}
	if (n < 0)
		return -1;
	return !strange ? 0 : unsure ? -1 : 1;
}

/* Mark the children of pid 1 that are not known, and their descendants. Returns the same as
 * find_in_list(). */
static int
mark_strangers(struct stage2 *s, struct procs *p)
{
	bool unsure = false, strange = false;

	for (size_t i = 0; i < p->n; i++) {
		p->v[i].mark = p->v[i].parent == 1 && !is_known(s, p->v[i].pid, &unsure);
		strange = strange || p->v[i].mark;
	}
	procs_mark_descent(p);
	return !strange ? 0 : unsure ? -1 : 1;
}

int
strangers_find(struct stage2 *s)
{
	struct command_table *c = s->commands;

	if (c->children_fd < 0)
		c->children_fd = openat(s->proc_fd, "1/task/1/children", O_RDONLY | O_CLOEXEC);
	if (c->children_fd >= 0)
		return find_in_list(s);
	/* This kernel has no such list: read /proc. A process that appears meanwhile descends
	 * from one that is there. */
	if (procs_read(s->proc_fd, &c->procs) < 0)
		return -1;
	return mark_strangers(s, &c->procs);
}

static void
kill_marked(const struct procs *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].mark)
			kill(p->v[i].pid, SIGKILL);
}

/* Kill all strangers at once: a stopped process does not fork. */
static void
kill_stopped(struct stage2 *s)
{
	struct command_table *c = s->commands;
	struct procs before = PROCS_EMPTY;

	if (procs_stop(s->proc_fd, &before) == 0 && procs_read(s->proc_fd, &c->procs) == 0 &&
	    mark_strangers(s, &c->procs) > 0)
		kill_marked(&c->procs);
	procs_go_on(&before);
	procs_done(&before);
}

void
strangers_end(struct stage2 *s)
{
	struct command_table *c = s->commands;

	if (++c->rounds > ROUNDS_MAX) {
		kill_stopped(s);
		return;
	}
	if (procs_read(s->proc_fd, &c->procs) == 0 && mark_strangers(s, &c->procs) > 0)
		kill_marked(&c->procs);
}

void
strangers_are_gone(struct stage2 *s)
{
	s->commands->rounds = 0;
}
