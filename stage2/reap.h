/*
 * The commands of the slot, and every process that dies in it. A command's reaper is a child of pid
 * 1. Any other unknown child of pid 1 has lost its reaper, so its command is over, and the process
 * is killed; this repeats until nothing is left. Only then is the end of the command reported to
 * the host.
 */
#ifndef KODA_STAGE2_REAP_H
#define KODA_STAGE2_REAP_H

#include "stage2/exec.h"
#include "stage2/procs.h"

struct command_table *commands_new(struct koda_error *err);
/* The slots of all commands, for the template. They are shared with it since before it was
 * forked. */
struct exec_slot *commands_slots(struct command_table *c);

/* Carry out an order and queue its report. fds stay the caller's. */
void commands_exec(struct stage2 *s, uint64_t id, const Koda__Exec *order, const int fds[3]);
void commands_signal(struct stage2 *s, uint64_t id, const Koda__Signal *order);
void commands_end(struct stage2 *s, uint64_t id, const Koda__End *order);

/* Register the worker, which belongs to no command. There is one at a time: a former one is
 * killed. */
void commands_worker(struct command_table *c, pid_t pid);
/* Register a koda-fs-search, which belongs to no command either. It is killed if there are too
 * many. */
void commands_search(struct command_table *c, pid_t pid);

/* The process that measures for stage2/quota, one at a time: register it, kill it, ask whether
 * it is still there. */
void commands_meter(struct command_table *c, pid_t pid);
void commands_meter_end(struct command_table *c);
bool commands_is_metering(const struct command_table *c);

/* Returns true if pid is the template, the spawner, the maker of links, the worker, a search,
 * the meter, or the reaper of a command that is not over: processes that are not part of a
 * command. Also returns true while the number of some reaper is not known yet, because pid may
 * be that reaper. */
bool commands_is_ours(const struct stage2 *s, pid_t pid);

/* Returns true if there is a command. */
bool commands_any(const struct command_table *c);

/* The slot is over a limit (Koda__SlotLimit): what it uses, and how much of that stays when
 * commands end. */
struct commands_limit {
	int limit;
	uint64_t used, kept;
};
/* End the command that uses most, by the `resident` or the threads of its processes. Returns
 * false if there is none to end. */
bool commands_end_largest(struct stage2 *s, struct procs *p, const struct commands_limit *limit);
/* Returns true if a command ended by commands_end_largest() is not gone yet. */
bool commands_are_ending(const struct command_table *c);

/* Call this on SIGCHLD, and when the time returned by commands_timeout() has passed. */
void commands_look(struct stage2 *s);
/* The template reports that it could not begin a command. */
void commands_not_begun(struct stage2 *s);
/* Returns the time until commands_look() is due, in ms; -1 if only SIGCHLD makes it so. */
int commands_timeout(struct command_table *c);

#endif
