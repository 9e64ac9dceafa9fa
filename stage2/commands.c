/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/commands.h"

#include <errno.h>
#include <signal.h>

#include "stage2/connect.h"
#include "stage2/template.h"

void
commands_exec(struct stage2 *s, uint64_t id, const Koda__Exec *order, const int fds[3])
{
	struct command_table *c = s->commands;
	unsigned i = 0;

	if (commands_by_id(c, id) != NULL) {
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
	if (connect_given(s->guard, fds, 3) < 0 || template_exec(s->template, i, fds) < 0) {
		exec_clear(&c->slots[i]);
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_FORK, errno, "template");
		return;
	}
	c->command[i] = (struct ordered_command){ .used = true, .id = id };
	c->untold++;
	c->launch_tick = 0;
	if (i >= c->end)
		c->end = i + 1;
}

/* Marks the processes of a command, with its reaper. */
static void
mark_command(struct procs *p, pid_t reaper)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].mark = p->v[i].pid == reaper;
	procs_mark_descent(p);
}

/* Signals the processes of a command: those in one group, or all (0). Returns how many got the
 * signal. */
static unsigned
signal_tree(struct stage2 *s, const struct exec_slot *slot, pid_t group, int signo)
{
	struct procs *p = &s->commands->procs;
	unsigned n = 0;

	if (procs_read(s->proc_fd, p) < 0)
		return 0;
	mark_command(p, slot->reaper);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].mark && p->v[i].pid != slot->reaper &&
		    (group == 0 || p->v[i].group == group) && kill(p->v[i].pid, signo) == 0)
			n++;
	return n;
}

bool
commands_send_signal(struct stage2 *s, const struct exec_slot *slot, int signo, bool all)
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
	struct ordered_command *cmd = commands_by_id(s->commands, order->command);
	struct exec_slot *slot = cmd == NULL ? NULL : commands_slot(s->commands, cmd);
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Delivered delivered = KODA__DELIVERED__INIT;

	if (cmd != NULL && !cmd->over && slot->state == EXEC_ORDERED)
		cmd->pending |= UINT64_C(1) << (order->signo - 1);
	else if (cmd == NULL || cmd->over ||
	    !commands_send_signal(s, slot, (int)order->signo, order->has_all && order->all)) {
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
	struct ordered_command *cmd = commands_by_id(s->commands, order->command);

	if (cmd == NULL) {
		stage2_failed(s, id, KODA__FAILED_STEP__FAILED_STEP_ORDER, ESRCH, "command");
		return;
	}
	/* Without the reaper the command's processes become children of pid 1, and stage2 kills
	 * them one by one. If the command has no reaper yet, stage2 kills the reaper as soon as
	 * there is one. */
	cmd->ending = true;
	if (!cmd->over && commands_slot(s->commands, cmd)->reaper > 0)
		kill(commands_slot(s->commands, cmd)->reaper, SIGKILL);
}

/* Returns what the command's processes use, according to *p, in the unit of the limit. */
static uint64_t
weigh_command(struct procs *p, pid_t reaper, int limit)
{
	uint64_t sum = 0;

	mark_command(p, reaper);
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
		weight = weigh_command(p, c->slots[i].reaper, limit->limit);
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
	mark_command(p, commands_slot(c, largest)->reaper);
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].mark && p->v[i].pid != commands_slot(c, largest)->reaper)
			kill(p->v[i].pid, SIGKILL);
	kill(commands_slot(c, largest)->reaper, SIGKILL);
	return true;
}
