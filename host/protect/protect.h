/*
 * Keeps commands from changing what the host's tools run or obey, and from planting more of it: the
 * places that the slot's worker found, the mount plan made from them, and the comparison after
 * commands. Only the worker reads the project; this code validates what it reports.
 */
#ifndef KODA_HOST_PROTECT_PROTECT_H
#define KODA_HOST_PROTECT_PROTECT_H

#include "host/sandbox/sandbox.h"

/* Limit for one slot. If a tree has more places, it is not covered completely, which is
 * reported. */
#define PROTECT_PLACES_MAX 20000
/* Interval of comparisons while a background command runs. */
#define PROTECT_INTERVAL_MS 2000
/* Interval of looks at what the host's git would use, while any command runs. They take less than a
 * thousandth of a processor, and a user's shell prompt runs git not much more often. */
#define PROTECT_LOOK_MS 50

struct protect *protect_new(void);
void protect_free(struct protect *p);
/* Like protect_free(), in a forked child: the files on disk belong to the parent. */
void protect_abandon(struct protect *p);
/* Have the worker scan (again if it is a new worker), plan the mounts, and mount. Waits. The slot's
 * worker must be up. */
int protect_prepare(struct sandbox *sb, struct koda_error *err);

/* Have the worker compare. The loop calls `done` once; the results are then in the slot's
 * violations, and new places are mounted before the next command runs. blame: the command, for the
 * violations. */
typedef void protect_done_fn(void *data);
enum protect_how {
	/* Only what the host's git would use right now. */
	PROTECT_LOOK,
	/* Everything, but git may be at work: leave what is harmless as it is. */
	PROTECT_GENTLY,
	PROTECT_WHOLLY,
};
int protect_compare(struct sandbox *sb, enum protect_how how, const char *blame,
    protect_done_fn *done, void *data, struct koda_error *err);
/* Start a PROTECT_LOOK, if no comparison is under way. */
void protect_look(struct sandbox *sb);
/* Note that a command is about to begin: from now on there is something to compare, also for the
 * next session if this one is killed. */
void protect_command_begins(struct sandbox *sb);
/* Returns true if a command has ever begun here. */
bool protect_had_commands(const struct sandbox *sb);
/*
 * Compare a last time, after the slot's commands were ended. Waits, at most until `until` (ns).
 * Builds the sandbox and the worker again if they are gone. Returns 0, or -1 if it did not finish
 * and the next session has to do it.
 */
int protect_compare_last(struct sandbox *sb, uint64_t until, struct koda_error *err);
/* Drop the `done` callbacks that have this `data`. */
void protect_forget(struct sandbox *sb, void *data);

#endif
