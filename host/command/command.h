/*
 * One command's life: asked for, approved, executed by stage2, its output captured, its deadline kept, ended, the
 * project compared, over. Every command becomes over exactly once, with a result or with the reason why nobody knows it.
 *
 *	ASKING -> RUNNING -> COMPARING -> OVER
 */
#ifndef KODA_HOST_COMMAND_COMMAND_H
#define KODA_HOST_COMMAND_COMMAND_H

#include "host/command/capture.h"
#include "host/protect/planted.h"
#include "host/sandbox/sandbox.h"
#include "host/session/handle.h"

#define COMMAND_WALL_MAX_MS (POLICY_WALL_TIME_MAX * 1000) /* whatever policy or caller say */
#define COMMAND_GRACE_MS    2000                          /* between SIGTERM and SIGKILL */
#define COMMAND_ARGS_MAX    (900u << 10) /* argv and environment together: they fit a frame */
#define CPU_GRACE_SECS      5            /* from SIGXCPU to SIGKILL */
#define SCAN_STDERR_MAX     (256u << 10) /* of captured standard error that is searched for denials */

enum command_state {
	COMMAND_ASKING,
	COMMAND_RUNNING, /* ordered; started or not */
	COMMAND_COMPARING,
	COMMAND_OVER,
};

struct command_output {
	struct source source; /* first */
	struct koda_command *command;
	struct capture capture;
	uint64_t resume_at; /* ns: it floods, and is read then; 0: when there is something */
};

struct koda_command {
	struct koda_command *prev, *next; /* of the sandbox */
	struct koda_slot *slot;           /* NULL: it is over */
	struct handle handle;
	struct sandbox *sb;
	enum command_state state;
	uint64_t id; /* of its Exec */
	bool started, background, tty, untimed, sync;
	char **argv, **env, **added; /* added: by the caller, for the question */
	char *cwd, *name;            /* name: for violations */
	int fd[3];                   /* -1 once they are sent */
	struct command_output out, err;
	uint64_t started_at, ended_at, deadline, kill_at; /* ns; 0: none */
	unsigned timeout_ms;
	uint64_t max_output;
	bool ending, timed_out;
	struct planted planted;
	enum koda_limit_hit slot_limit; /* of all commands together: it was ended for that */
	uint64_t seen_violations;
	struct koda_approval *approval;
	struct koda_command_result result;
	struct koda_violation *violations;
	struct koda_error error;
	koda_command_done_fn *done;
	void *data;
};

/* For the sandbox: a report about it; the sandbox is gone, and is built anew to compare what the command left; the slot
 * is gone; time. */
void command_report(struct koda_command *c, const Koda__Report *report);
void command_lost(struct koda_command *c, const struct koda_error *why);
void command_closed(struct koda_command *c, const struct koda_error *why);
/* Something that it may have planted was taken away: too often, and it is ended. */
void command_planted(struct koda_command *c, const char *path);
/* The slot ends: kill what runs of it (its Exited is still to come); the last comparison is done. */
void command_cut_short(struct koda_command *c, const struct koda_error *why);
void command_compared(struct koda_command *c);
void command_tick(struct koda_command *c, uint64_t now);
uint64_t command_next_time(const struct koda_command *c);

/* Builds again what has died since the last command: the sandbox, the worker, the view. Does nothing if the slot has no
 * sandbox. Returns 0, or -1 with *err set. */
int command_make_ready(struct koda_slot *slot, struct koda_error *err);

/* For the approval: the answer. */
void command_answer(struct koda_command *c, bool yes);

#endif
