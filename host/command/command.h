/*
 * One command's life: requested, approved, executed by stage2, output captured, deadline kept,
 * ended, the project compared, over. Every command ends exactly once, with a result or with the
 * reason why its result is not known.
 *
 *	ASKING -> RUNNING -> COMPARING -> OVER
 */
#ifndef KODA_HOST_COMMAND_COMMAND_H
#define KODA_HOST_COMMAND_COMMAND_H

#include "host/command/capture.h"
#include "host/context/handle.h"
#include "host/protect/planted.h"
#include "host/sandbox/sandbox.h"

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
	struct koda_command *prev, *next; /* the sandbox's list */
	struct koda_slot *slot;           /* NULL once it is over */
	struct handle handle;
	struct sandbox *sb;
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

/* For the sandbox, in this order: stage2 sent a report about the command; the sandbox died, and is
 * built again to compare what the command left; the slot is freed. */
void command_report(struct koda_command *c, const Koda__Report *report);
void command_lost(struct koda_command *c, const struct koda_error *why);
void command_closed(struct koda_command *c, const struct koda_error *why);
/* The host took away something at that path, which this command, or a command of one of so many
 * neighbours, may have planted. If that happens too often, the command is ended. */
void command_planted(struct koda_command *c, const char *path, size_t neighbours);
/* The slot ends. command_cut_short() kills the command (its Exited is still to come);
 * command_compared() reports that the last comparison is done. */
void command_cut_short(struct koda_command *c, const struct koda_error *why);
void command_compared(struct koda_command *c);
void command_tick(struct koda_command *c, uint64_t now);
uint64_t command_next_time(const struct koda_command *c);

/* Starts the sandbox and the worker again and mounts the view again, if they have died since the
 * last command. Does nothing if the slot has no sandbox. Returns 0, or -1 with *err set. */
int command_make_ready(struct koda_slot *slot, struct koda_error *err);

/* The answer to the request for approval. */
void command_answer(struct koda_command *c, bool yes);

/* For the public calls: take it out of the sandbox's list; end it with that error; free it. */
void command_unlink(struct koda_command *c);
void command_fail(struct koda_command *c, const struct koda_error *why);
void command_destroy(struct koda_command *c);

#endif
