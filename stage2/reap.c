/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/reap.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stage2/commands.h"
#include "stage2/companions.h"
#include "stage2/connect.h"
#include "stage2/links.h"
#include "stage2/procs.h"
#include "stage2/strangers.h"
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

static void
report_started(struct stage2 *s, struct ordered_command *cmd)
{
	struct exec_slot *slot = commands_slot(s->commands, cmd);
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
			commands_send_signal(s, slot, signo, false);
}

static void
report_end(struct stage2 *s, struct ordered_command *cmd)
{
	struct exec_slot *slot = commands_slot(s->commands, cmd);
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Exited exited = KODA__EXITED__INIT;

	if (slot->step != 0) {
		stage2_failed(s, cmd->id, (Koda__FailedStep)slot->step, slot->errnum, "");
		return;
	}
	if (!cmd->told)
		report_started(s, cmd);
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

static void
note_over(struct command_table *c, struct ordered_command *cmd)
{
	struct exec_slot *slot = commands_slot(c, cmd);

	cmd->over = true;
	c->over++;
	if (!cmd->told)
		c->untold--;
	if (slot->state == EXEC_DONE) {
		cmd->own = true;
		cmd->status = slot->status;
	}
}

/* A process of a command that has lost its reaper has died. If stage2 cannot tell which command it
 * belonged to, it counts the process for the first one. */
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

/* Nothing can be started any more; the host builds another sandbox. */
static void __attribute__((noreturn)) helper_died(const char *name)
{
	fprintf(stderr, "koda-sandbox-stage2: the %s died\n", name);
	_exit(1);
}

static void
reap_dead(struct stage2 *s)
{
	struct command_table *c = s->commands;
	struct ordered_command *cmd;
	struct rusage ru;
	pid_t pid;
	int status;

	while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &ru)) > 0) {
		cmd = commands_by_reaper(c, pid);
		if (WIFSTOPPED(status)) {
			/* A command can stop these processes (the worker only below Landlock's
			 * ABI 6). It gains nothing by that. */
			if (cmd != NULL || companions_has(&s->companions, pid) ||
			    strangers_is_helper(s, pid))
				kill(pid, SIGCONT);
			continue;
		}
		if (cmd != NULL) {
			note_over(c, cmd);
			add_usage(cmd, &ru);
		} else if (pid == links_pid(s->links)) {
			links_died(s);
		} else if (strangers_is_helper(s, pid)) {
			helper_died(pid == s->spawner->pid ? "spawner" : "template");
		} else if (companions_has(&s->companions, pid)) {
			companions_forget(&s->companions, pid);
		} else {
			stranger_died(c, pid, status, &ru);
		}
	}
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
report_over(struct stage2 *s)
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
		report_end(s, cmd);
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
look_at_starts(struct stage2 *s)
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
		report_started(s, cmd);
	}
}

void
reap_look(struct stage2 *s)
{
	struct command_table *c = s->commands;
	int strange;

	reap_dead(s);
	look_at_starts(s);
	c->left = false;
	if (c->over == 0)
		return;
	strange = strangers_find(s);
	if (strange == 0 && !links_are_made(s->links, c->over)) {
		/* A link made after the reported end would not be checked. */
		c->left = true;
		return;
	}
	if (strange == 0) {
		strangers_are_gone(s);
		report_over(s);
		return;
	}
	c->left = true;
	if (strange > 0)
		strangers_end(s);
}

void
reap_not_begun(struct stage2 *s)
{
	struct command_table *c = s->commands;
	struct exec_request req;

	while (recv(s->template->fd, &req, sizeof(req), MSG_DONTWAIT) == (ssize_t)sizeof(req))
		if (req.slot < c->end && c->command[req.slot].used && !c->command[req.slot].over)
			note_over(c, &c->command[req.slot]);
	reap_look(s);
}

int
reap_timeout(struct command_table *c)
{
	int tick = -1;

	if (c->untold > 0) {
		tick = c->launch_tick == 0                    ? LAUNCH_TICK_MS
		    : c->launch_tick < LAUNCH_TICK_MAX_MS / 2 ? c->launch_tick * 2
							      : LAUNCH_TICK_MAX_MS;
		c->launch_tick = tick;
	}
	if (c->left && (tick < 0 || tick > LEFT_TICK_MS))
		tick = LEFT_TICK_MS;
	return tick;
}
