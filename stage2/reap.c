#include "stage2/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "shared/base/cleanup.h"
#include "stage2/connect.h"
#include "stage2/links.h"
#include "stage2/procs.h"
#include "stage2/template.h"
#include "stage2/watch.h"
#include "stage2/worker.h"

/* Time until the start of a command is reported; a command that ends earlier is reported then.
 * So the reaper need not wake stage2. */
#define LAUNCH_TICK_MS     5
#define LAUNCH_TICK_MAX_MS 50
/* SIGCHLD reports that a killed process is gone, but not that a process has become a child of
 * pid 1 meanwhile. */
#define LEFT_TICK_MS 10
/* After this many rounds of killing, something forks faster than it is found. Then all processes
 * are stopped first. */
#define ROUNDS_MAX 3

struct ordered_command {
	bool used;
	uint64_t id;
	bool told;   /* Started was reported */
	bool ending; /* it is being ended, by order or for a limit */
	bool over;   /* its reaper is gone; what is left of it is killed */
	bool own;    /* status is the command's own */
	int status;
	uint64_t pending; /* signals received before it had begun */
	uint64_t user_us, system_us, max_rss, killed;
	struct commands_limit limit; /* that it was ended for; limit.limit is 0 if none */
};

struct command_table {
	struct exec_slot *slots;
	struct ordered_command command[STAGE2_COMMANDS_MAX];
	unsigned end;    /* no command in use from here on */
	unsigned over;   /* how many commands are */
	unsigned untold; /* start not reported, not over */
	unsigned rounds;
	int launch_tick;
	bool left;       /* there were strangers at the last look */
	int children_fd; /* /proc/1/task/1/children, or -1 */
	pid_t worker;
	pid_t meter;                       /* 0: none */
	pid_t search[STAGE2_SEARCHES_MAX]; /* 0: none */
	struct procs procs;
};

struct command_table *
commands_new(struct koda_error *err)
{
	cleanup_free struct command_table *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "commands");
		return NULL;
	}
	c->slots = exec_slots_new(err);
	if (c->slots == NULL)
		return NULL;
	c->launch_tick = LAUNCH_TICK_MS;
	c->children_fd = -1;
	return take_ptr(&c);
}

struct exec_slot *
commands_slots(struct command_table *c)
{
	return c->slots;
}

void
commands_worker(struct command_table *c, pid_t pid)
{
	/* If it is not dead yet, it counts as a stranger from now on. */
	if (c->worker > 0)
		kill(c->worker, SIGKILL);
	c->worker = pid;
}

void
commands_search(struct command_table *c, pid_t pid)
{
	for (unsigned i = 0; i < STAGE2_SEARCHES_MAX; i++) {
		if (c->search[i] == 0) {
			c->search[i] = pid;
			return;
		}
	}
	kill(pid, SIGKILL);
}

void
commands_meter(struct command_table *c, pid_t pid)
{
	c->meter = pid;
}

void
commands_meter_end(struct command_table *c)
{
	if (c->meter > 0)
		kill(c->meter, SIGKILL);
}

bool
commands_is_metering(const struct command_table *c)
{
	return c->meter > 0;
}

/* Returns where the number of this worker, meter or search is kept, or NULL if pid is none of
 * them. */
static pid_t *
worker_of(struct command_table *c, pid_t pid)
{
	if (pid == c->worker)
		return &c->worker;
	if (pid == c->meter)
		return &c->meter;
	for (unsigned i = 0; i < STAGE2_SEARCHES_MAX; i++)
		if (pid == c->search[i])
			return &c->search[i];
	return NULL;
}

bool
commands_any(const struct command_table *c)
{
	return c->end > 0;
}

static struct ordered_command *
by_id(struct command_table *c, uint64_t id)
{
	for (unsigned i = 0; i < c->end; i++)
		if (c->command[i].used && c->command[i].id == id)
			return &c->command[i];
	return NULL;
}

static struct exec_slot *
slot_of(struct command_table *c, const struct ordered_command *cmd)
{
	return &c->slots[cmd - c->command];
}

/* ---- orders ---- */

void
commands_exec(struct stage2 *s, uint64_t id, const Koda__Exec *order, const int fds[3])
{
	struct command_table *c = s->commands;
	unsigned i = 0;

	if (by_id(c, id) != NULL) {
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_ORDER, EEXIST, "command");
		return;
	}
	while (i < STAGE2_COMMANDS_MAX && c->command[i].used)
		i++;
	if (i == STAGE2_COMMANDS_MAX) {
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_ORDER, EAGAIN, "commands");
		return;
	}
	if (exec_fill(&c->slots[i], order) < 0) {
		exec_clear(&c->slots[i]);
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_EXEC, E2BIG, "");
		return;
	}
	if (template_exec(s->template, i, fds) < 0) {
		exec_clear(&c->slots[i]);
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_FORK, errno, "template");
		return;
	}
	c->command[i] = (struct ordered_command){ .used = true, .id = id };
	c->untold++;
	c->launch_tick = LAUNCH_TICK_MS;
	if (i >= c->end)
		c->end = i + 1;
}

/* Signal the processes of a command, or those of them in one group (0: all). Returns how many
 * got the signal. */
static unsigned
signal_tree(struct stage2 *s, const struct exec_slot *slot, pid_t group, int signo)
{
	struct procs *p = &s->commands->procs;
	unsigned n = 0;

	if (procs_read(s->proc_fd, p) < 0)
		return 0;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].mark = p->v[i].pid == slot->reaper;
	procs_mark_descent(p);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].mark && p->v[i].pid != slot->reaper &&
		    (group == 0 || p->v[i].group == group) && kill(p->v[i].pid, signo) == 0)
			n++;
	return n;
}

/* Returns true if any process got the signal. */
static bool
send_signal(struct stage2 *s, const struct exec_slot *slot, int signo, bool all)
{
	pid_t group = slot->command;
	struct proc first;

	if (all)
		return signal_tree(s, slot, 0, signo) > 0;
	if (slot->tty && procs_one(s->proc_fd, group, &first) && first.foreground > 0)
		group = first.foreground;
	/* The group's number stays taken until the reaper has waited for the command. After that
	 * only descendants of the reaper are signalled. */
	if (slot->state == EXEC_DONE)
		return signal_tree(s, slot, group, signo) > 0;
	return kill(-group, signo) == 0;
}

void
commands_signal(struct stage2 *s, uint64_t id, const Koda__Signal *order)
{
	struct ordered_command *cmd = by_id(s->commands, order->command);
	struct exec_slot *slot = cmd == NULL ? NULL : slot_of(s->commands, cmd);
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Delivered delivered = KODA__DELIVERED__INIT;

	if (cmd != NULL && !cmd->over && slot->state == EXEC_ORDERED)
		cmd->pending |= UINT64_C(1) << (order->signo - 1);
	else if (cmd == NULL || cmd->over ||
	    !send_signal(s, slot, (int)order->signo, order->has_all && order->all)) {
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_ORDER, ESRCH, "command");
		return;
	}
	report.id = id;
	report.report_case = KODA__REPORT__REPORT_DELIVERED;
	report.delivered = &delivered;
	stage2_report(s, &report);
}

void
commands_end(struct stage2 *s, uint64_t id, const Koda__End *order)
{
	struct ordered_command *cmd = by_id(s->commands, order->command);

	if (cmd == NULL) {
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_ORDER, ESRCH, "command");
		return;
	}
	/* Its processes become children of pid 1 then, and are killed one by one. If it has no
	 * reaper yet, this is done as soon as it has one. */
	cmd->ending = true;
	if (!cmd->over && slot_of(s->commands, cmd)->reaper > 0)
		kill(slot_of(s->commands, cmd)->reaper, SIGKILL);
}

/* ---- over a limit ---- */

/* Returns what the command's processes use, according to *p, in the unit of the limit. Leaves
 * them marked. */
static uint64_t
weigh(struct procs *p, pid_t reaper, int limit)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i++)
		p->v[i].mark = p->v[i].pid == reaper;
	procs_mark_descent(p);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].mark)
			sum += limit == KODA__SLOT_LIMIT__SLOT_LIMIT_MEMORY
			    ? p->v[i].resident
			    : (uint64_t)p->v[i].threads;
	return sum;
}

bool
commands_end_largest(struct stage2 *s, struct procs *p, const struct commands_limit *limit)
{
	struct command_table *c = s->commands;
	struct ordered_command *largest = NULL;
	uint64_t most = 0;

	for (unsigned i = 0; i < c->end; i++) {
		struct ordered_command *cmd = &c->command[i];
		uint64_t weight;

		if (!cmd->used || cmd->over || cmd->ending || c->slots[i].reaper <= 0)
			continue;
		weight = weigh(p, c->slots[i].reaper, limit->limit);
		if (largest != NULL && weight < most)
			continue;
		largest = cmd;
		most = weight;
	}
	if (largest == NULL)
		return false;
	largest->limit = *limit;
	largest->ending = true;
	/* Kill all of its processes at once. A process forked meanwhile loses its reaper, and is
	 * found as a stranger. */
	weigh(p, slot_of(c, largest)->reaper, limit->limit);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].mark && p->v[i].pid != slot_of(c, largest)->reaper)
			kill(p->v[i].pid, SIGKILL);
	kill(slot_of(c, largest)->reaper, SIGKILL);
	return true;
}

bool
commands_are_ending(const struct command_table *c)
{
	for (unsigned i = 0; i < c->end; i++)
		if (c->command[i].used && c->command[i].limit.limit != 0)
			return true;
	return false;
}

/* ---- dead processes ---- */

static void
tell_started(struct stage2 *s, struct ordered_command *cmd)
{
	struct exec_slot *slot = slot_of(s->commands, cmd);
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Started started = KODA__STARTED__INIT;

	cmd->told = true;
	report.id = cmd->id;
	report.report_case = KODA__REPORT__REPORT_STARTED;
	report.started = &started;
	/* The command may have been ended before it existed. */
	started.pid = slot->command != 0 ? slot->command : slot->reaper;
	stage2_report(s, &report);
	for (int signo = 1; cmd->pending != 0; signo++, cmd->pending >>= 1)
		if ((cmd->pending & 1) != 0 && !cmd->over)
			send_signal(s, slot, signo, false);
}

static void
tell_end(struct stage2 *s, struct ordered_command *cmd)
{
	struct exec_slot *slot = slot_of(s->commands, cmd);
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Exited exited = KODA__EXITED__INIT;

	if (slot->step != 0) {
		stage2_failed(s, cmd->id, (Koda__FailedStep)slot->step, slot->errnum, "");
		return;
	}
	if (!cmd->told)
		tell_started(s, cmd);
	connect_tell_untold(s);
	links_tell_untold(s);
	report.id = cmd->id;
	report.report_case = KODA__REPORT__REPORT_EXITED;
	report.exited = &exited;
	exited.reaper_lost = !cmd->own && !cmd->ending;
	if (!cmd->own)
		exited.signal = SIGKILL;
	else if (WIFSIGNALED(cmd->status))
		exited.signal = (uint32_t)WTERMSIG(cmd->status);
	else
		exited.code = (uint32_t)WEXITSTATUS(cmd->status);
	exited.user_us = cmd->user_us;
	exited.system_us = cmd->system_us;
	exited.max_rss_kib = cmd->max_rss;
	exited.killed = cmd->killed;
	exited.has_limit = exited.has_used = exited.has_kept = cmd->limit.limit != 0;
	exited.limit = (Koda__SlotLimit)cmd->limit.limit;
	exited.used = cmd->limit.used;
	exited.kept = cmd->limit.kept;
	stage2_report(s, &report);
}

static uint64_t
microseconds(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static void
add_usage(struct ordered_command *cmd, const struct rusage *ru)
{
	cmd->user_us += microseconds(&ru->ru_utime);
	cmd->system_us += microseconds(&ru->ru_stime);
	if ((uint64_t)ru->ru_maxrss > cmd->max_rss)
		cmd->max_rss = (uint64_t)ru->ru_maxrss;
}

static struct ordered_command *
by_reaper(struct command_table *c, pid_t pid)
{
	for (unsigned i = 0; i < c->end; i++)
		if (c->command[i].used && !c->command[i].over && c->slots[i].reaper == pid)
			return &c->command[i];
	return NULL;
}

static void
be_over(struct command_table *c, struct ordered_command *cmd)
{
	struct exec_slot *slot = slot_of(c, cmd);

	cmd->over = true;
	c->over++;
	if (!cmd->told)
		c->untold--;
	if (slot->state == EXEC_DONE) {
		cmd->own = true;
		cmd->status = slot->status;
	}
}

/* A process has died whose command has lost its reaper. If it is not clear which command that
 * is, the first one counts. */
static void
stranger_died(struct command_table *c, pid_t pid, int status, const struct rusage *ru)
{
	struct ordered_command *first = NULL;

	for (unsigned i = 0; i < c->end; i++) {
		struct ordered_command *cmd = &c->command[i];

		if (!cmd->used || (!cmd->over && c->slots[i].command != pid))
			continue;
		if (c->slots[i].command == pid && !cmd->own) {
			/* It may have ended by itself while its reaper was being killed. */
			if (cmd->ending) {
				cmd->own = true;
				cmd->status = status;
			}
			add_usage(cmd, ru);
			return;
		}
		if (first == NULL)
			first = cmd;
	}
	if (first == NULL)
		return;
	add_usage(first, ru);
	first->killed++;
}

/* Returns true for the template and the spawner, without which stage2 cannot go on, and for the
 * maker of links. */
static bool
is_helper(const struct stage2 *s, pid_t pid)
{
	return pid == s->template->pid || pid == s->spawner->pid || pid == links_pid(s->links);
}

/* Nothing can be started any more; the host builds another sandbox. */
static void __attribute__((noreturn)) helper_died(const char *name)
{
	fprintf(stderr, "koda-sandbox-stage2: the %s died\n", name);
	_exit(1);
}

static void
reap(struct stage2 *s)
{
	struct command_table *c = s->commands;
	struct ordered_command *cmd;
	struct rusage ru;
	pid_t pid, *worker;
	int status;

	while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &ru)) > 0) {
		cmd = by_reaper(c, pid);
		if (WIFSTOPPED(status)) {
			/* A command can stop these processes (the worker only below Landlock's
			 * ABI 6). It gains nothing by that. */
			if (cmd != NULL || worker_of(c, pid) != NULL || is_helper(s, pid))
				kill(pid, SIGCONT);
			continue;
		}
		if (cmd != NULL) {
			be_over(c, cmd);
			add_usage(cmd, &ru);
		} else if (pid == links_pid(s->links)) {
			links_died(s);
		} else if (is_helper(s, pid)) {
			helper_died(pid == s->spawner->pid ? "spawner" : "template");
		} else if ((worker = worker_of(c, pid)) != NULL) {
			*worker = 0;
		} else {
			stranger_died(c, pid, status, &ru);
		}
	}
}

/* ---- what is left ---- */

/* Returns true if pid is a known process of ours. Sets *ret_unsure if the number of some reaper
 * is not known yet, so that an unknown process may be that reaper. */
static bool
is_known(const struct stage2 *s, pid_t pid, bool *ret_unsure)
{
	const struct command_table *c = s->commands;

	if (is_helper(s, pid) || worker_of(s->commands, pid) != NULL)
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
commands_is_ours(const struct stage2 *s, pid_t pid)
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
strangers_in_list(struct stage2 *s)
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
 * strangers_in_list(). */
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

static int
find_strangers(struct stage2 *s)
{
	struct command_table *c = s->commands;

	if (c->children_fd < 0)
		c->children_fd = openat(s->proc_fd, "1/task/1/children", O_RDONLY | O_CLOEXEC);
	if (c->children_fd >= 0)
		return strangers_in_list(s);
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

static void
end_strangers(struct stage2 *s)
{
	struct command_table *c = s->commands;

	if (++c->rounds > ROUNDS_MAX) {
		kill_stopped(s);
		return;
	}
	if (procs_read(s->proc_fd, &c->procs) == 0 && mark_strangers(s, &c->procs) > 0)
		kill_marked(&c->procs);
}

/* A command that killed its reaper may have killed the template and the spawner as well, and the
 * kernel may not have ended them yet. A template that is about to end must not get the next
 * command: the host could not know how far that command came. */
static void
end_with_helpers(struct stage2 *s)
{
	const char *name = procs_is_dying(s->proc_fd, s->template->pid) ? "template"
	    : procs_is_dying(s->proc_fd, s->spawner->pid)               ? "spawner"
									: NULL;

	if (name == NULL)
		return;
	frame_flush(&s->fs, true, NULL); /* the host has to learn how the command ended */
	helper_died(name);
}

static void
tell_over(struct stage2 *s)
{
	struct command_table *c = s->commands;
	bool idle = true, lost = false;

	for (unsigned i = 0; i < c->end; i++)
		idle = idle && (!c->command[i].used || c->command[i].over);
	if (idle && c->over > 0)
		watch_idle(s);
	for (unsigned i = 0; i < c->end; i++) {
		struct ordered_command *cmd = &c->command[i];

		if (!cmd->used || !cmd->over)
			continue;
		lost = lost || (!cmd->own && !cmd->ending);
		tell_end(s, cmd);
		exec_clear(&c->slots[i]);
		cmd->used = false;
		c->over--;
	}
	while (c->end > 0 && !c->command[c->end - 1].used)
		c->end--;
	if (lost)
		end_with_helpers(s);
}

/* Report the start of commands that run, and kill the reapers of those that were to be ended
 * before they had one. */
static void
look_at_untold(struct stage2 *s)
{
	struct command_table *c = s->commands;

	for (unsigned i = 0; i < c->end && c->untold > 0; i++) {
		struct ordered_command *cmd = &c->command[i];

		if (!cmd->used || cmd->over || cmd->told)
			continue;
		if (cmd->ending && c->slots[i].reaper > 0)
			kill(c->slots[i].reaper, SIGKILL);
		if (c->slots[i].state == EXEC_ORDERED || c->slots[i].step != 0)
			continue;
		c->untold--;
		tell_started(s, cmd);
	}
}

void
commands_look(struct stage2 *s)
{
	struct command_table *c = s->commands;
	int strange;

	reap(s);
	look_at_untold(s);
	c->left = false;
	if (c->over == 0)
		return;
	strange = find_strangers(s);
	if (strange == 0 && !links_are_made(s->links, c->over)) {
		/* What is made after the reported end would not be checked. */
		c->left = true;
		return;
	}
	if (strange == 0) {
		c->rounds = 0;
		tell_over(s);
		return;
	}
	c->left = true;
	if (strange > 0)
		end_strangers(s);
}

void
commands_not_begun(struct stage2 *s)
{
	struct command_table *c = s->commands;
	struct exec_request req;

	while (recv(s->template->fd, &req, sizeof(req), MSG_DONTWAIT) == (ssize_t)sizeof(req))
		if (req.slot < c->end && c->command[req.slot].used && !c->command[req.slot].over)
			be_over(c, &c->command[req.slot]);
	commands_look(s);
}

int
commands_timeout(struct command_table *c)
{
	int tick = -1;

	if (c->untold > 0) {
		tick = c->launch_tick;
		c->launch_tick = tick < LAUNCH_TICK_MAX_MS / 2 ? tick * 2 : LAUNCH_TICK_MAX_MS;
	}
	if (c->left && (tick < 0 || tick > LEFT_TICK_MS))
		tick = LEFT_TICK_MS;
	return tick;
}
