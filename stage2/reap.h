/*
 * The commands of the slot, and everybody who dies in it. A command's reaper is a child of ours; what is a child of ours
 * and is nobody we know has lost its reaper, so its command is over, and it is ended, looking again until there is
 * nothing left. Only then is the host told.
 */
#ifndef KODA_STAGE2_REAP_H
#define KODA_STAGE2_REAP_H

#include "stage2/exec.h"
#include "stage2/procs.h"

struct commands *commands_new(struct koda_error *err);
/* For the template: shared from before it was forked. */
struct exec_slot *commands_slots(struct commands *c);

/* Orders. They answer by themselves. fds are the caller's. */
void commands_exec(struct stage2 *s, uint64_t id, const Koda__Exec *order, const int fds[3]);
void commands_signal(struct stage2 *s, uint64_t id, const Koda__Signal *order);
void commands_end(struct stage2 *s, uint64_t id, const Koda__End *order);

/* The worker, which is nobody's command. One at a time: a former one is ended. */
void commands_worker(struct commands *c, pid_t pid);
/* One more koda-fs-search, nobody's command either. One too many is ended. */
void commands_search(struct commands *c, pid_t pid);

/* The process that measures for stage2/quota. Is it there still? One at a time. */
void commands_meter(struct commands *c, pid_t pid);
void commands_meter_end(struct commands *c);
bool commands_is_metering(const struct commands *c);

/* The template, the worker, or the reaper of a command that is not over: what no command can be. */
bool commands_is_ours(const struct stage2 *s, pid_t pid);

/* Is there any? */
bool commands_any(const struct commands *c);

/* The slot is above a limit (Koda__SlotLimit): what it uses, and what of that stays when commands end. */
struct commands_limit {
	int limit;
	uint64_t used, kept;
};
/* End the command that uses most, by the `resident` or the threads of its processes. false: none can be ended. */
bool commands_end_largest(struct stage2 *s, struct procs *p, const struct commands_limit *limit);
/* Is one not gone yet that was ended so? */
bool commands_are_ending(const struct commands *c);

/* SIGCHLD came, or the time that commands_timeout gave is over. */
void commands_look(struct stage2 *s);
/* The template says that it could not begin one. */
void commands_not_begun(struct stage2 *s);
/* In ms; -1: nothing to be looked at but on SIGCHLD. */
int commands_timeout(struct commands *c);

#endif
