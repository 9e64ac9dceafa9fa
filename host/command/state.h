/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a command, and of all commands of a slot together. The functions are declared in the
 * other headers of this folder.
 */
#ifndef KODA_HOST_COMMAND_STATE_H
#define KODA_HOST_COMMAND_STATE_H

#include "host/command/capture.h"
#include "host/context/handle.h"
#include "host/context/violations.h"
#include "host/protect/planted.h"
#include "host/sandbox/state.h"
#include "host/slot/state.h"

#define COMMAND_WALL_MAX_MS (POLICY_WALL_TIME_MAX * 1000) /* regardless of policy and caller */
#define COMMAND_GRACE_MS    2000                          /* between SIGTERM and SIGKILL */
#define COMMAND_ARGS_MAX    (900u << 10) /* argv and environment together: they fit in a frame */
#define CPU_GRACE_SECS      5            /* from SIGXCPU to SIGKILL */
/* How much of the captured standard error is searched for denials, at each end. */
#define SCAN_STDERR_MAX (256u << 10)

enum command_state {
	COMMAND_ASKING,
	COMMAND_RUNNING, /* the order was sent; it may not have started yet */
	COMMAND_COMPARING,
	COMMAND_OVER,
};

struct command_output {
	struct source source; /* first */
	struct koda_command *command;
	struct capture capture;
	/* ns: the command floods, and the host reads again at that time; 0: the host reads as soon
	 * as there is output. */
	uint64_t resume_at;
};

struct koda_command {
	struct koda_command *prev, *next; /* of the slot's commands */
	struct handle handle;
	struct commands *of; /* NULL once it is over */
	enum command_state state;
	uint64_t id; /* of its Exec */
	bool background, tty, untimed, sync;
	char **argv, **env, **added; /* added: by the caller, shown when approval is asked for */
	char *cwd, *name;            /* name: for violations */
	int fd[3];                   /* -1 once they are sent to stage2 */
	struct command_output out, err;
	uint64_t started_at, deadline, kill_at; /* ns; 0: none */
	unsigned timeout_ms;
	uint64_t max_output;
	bool ending, timed_out;
	struct planted planted;
	/* The limit on all commands together that this command was ended for. */
	enum koda_limit_hit slot_limit;
	uint64_t seen_violations;
	struct asked *asked; /* the open question about it */
	struct koda_command_result result;
	struct koda_violation *violations;
	struct koda_error error;
	koda_command_done_fn *done;
	void *data;
};

/* The commands of a slot that are not over yet, and what they need of the slot. */
struct commands {
	struct koda_slot *slot;
	struct sandbox *sandbox;
	struct protect *protect;
	struct violations violations;
	struct koda_command *first;
	size_t n;
	/* Commands whose handle was freed before stage2 has reported their end. */
	size_t n_given_up;
	bool ended; /* the slot is ending: no command is started any more */
	/* Several commands have run at the same time since the last time none was running. */
	bool mixed;
	uint64_t compare_at; /* ns: the next comparison for background commands; 0: none */
	/* ns: the next check of what the host's git would use; 0: no command runs. */
	uint64_t look_at;
};

#endif
