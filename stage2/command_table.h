/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the slot, from the order until their end is reported: what is known of each, and
 * how to find it. stage2/commands begins and ends them, stage2/reap learns how they ended.
 */
#ifndef KODA_STAGE2_COMMAND_TABLE_H
#define KODA_STAGE2_COMMAND_TABLE_H

#include "stage2/exec.h"
#include "stage2/procs.h"

/* The slot is over a limit (Koda__SlotLimit): what it uses, and how much of that stays when
 * commands end. */
struct commands_limit {
	int limit;
	uint64_t used, kept;
};

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
	unsigned over;   /* how many commands have `over` set */
	unsigned untold; /* how many are not over and have no Started report yet */
	int launch_tick; /* the last wait for the start of a command, in ms; 0: begin again */
	bool left;       /* there were strangers at the last look */
	/* Of stage2/strangers. */
	unsigned rounds;
	int children_fd; /* /proc/1/task/1/children, or -1 */
	struct procs procs;
};

struct command_table *commands_new(struct koda_error *err);
/* The slots of all commands, for the template. They are shared with it since before it was
 * forked. */
struct exec_slot *commands_slots(struct command_table *c);

/* Returns true if there is a command. */
bool commands_any(const struct command_table *c);
/* Returns true if a command ended by commands_end_largest() is not gone yet. */
bool commands_are_ending(const struct command_table *c);

/* Return the command, or NULL. One that is over has no reaper. */
struct ordered_command *commands_by_id(struct command_table *c, uint64_t id);
struct ordered_command *commands_by_reaper(struct command_table *c, pid_t pid);

struct exec_slot *commands_slot(struct command_table *c, const struct ordered_command *cmd);

#endif
