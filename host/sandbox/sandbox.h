/*
 * The kernel sandbox of one slot: bwrap, which makes the namespaces and the coarse view, and stage2, its init, which
 * does the rest and runs commands. Lives as long as the slot; what dies is built again when it is needed next.
 *
 * Starts and asks; what a command is, is in host/command/command; what is protected in the view in host/protect/protect.
 * stage2 is trusted to carry out orders, not to be well: its reports are checked like a worker's replies.
 */
#ifndef KODA_HOST_SANDBOX_SANDBOX_H
#define KODA_HOST_SANDBOX_SANDBOX_H

#include "host/caches/cache_points.h"
#include "host/caches/cache_store.h"
#include "host/caches/caches.h"
#include "host/command/violations.h"
#include "host/egress/egress.h"
#include "host/protect/state.h"
#include "host/sandbox/view.h"
#include "host/session/session.h"
#include "proto/stage2.pb-c.h"

#define SANDBOX_BOOT_MS                                                                            \
	10000 /* to Booted; takes about ten, a loaded machine a hundred times that */
#define SANDBOX_ANSWER_MS 10000 /* of any order that is answered at once */

#define SANDBOX_REASON_MAX 256

struct sandbox {
	struct source source; /* the control socket; first: a source is cast back */
	struct sandbox_end {
		struct source source; /* bwrap's pidfd; first */
		struct sandbox *sb;
	} end;
	struct koda_slot *slot;
	ino_t peer; /* the other end of the control socket */
	bool up;
	bool
	    doubtful; /* a command killed more than is its own: ask whether it lives before the next one */
	bool full; /* of files in private file systems: built again before the next command */
	struct child bwrap;
	int init_fd; /* stage2's pidfd; -1: not known yet */
	pid_t init_pid;
	struct frame_stream fs;
	struct arena arena;
	uint64_t next_id;
	uint64_t boots;
	int said_fd; /* what bwrap and stage2 said on standard error */
	unsigned landlock_abi;
	bool connect_guard;

	/* The view. */
	struct state state; /* koda's own directory, held while the slot lives */
	int quarantine_fd;  /* for the worker; -1: there is none */
	struct caches caches;
	const char **cache; /* their paths, for the view */
	char *
	    git_dir; /* what commands write beside the policy's: a worktree's git directory, or NULL */
	struct cache_points points;         /* of this boot, too */
	struct cache_store layers;          /* of this boot; closed when there are none */
	char no_layers[SANDBOX_REASON_MAX]; /* why not */
	bool root_is_git_dir;               /* it was before any command of this slot ran */
	struct view view;
	struct protect *protect;

	struct koda_command *commands; /* not over yet */
	size_t n_commands;
	size_t
	    n_given_up; /* commands that nobody waits for any more, and whose end was not reported yet */
	bool ended; /* the slot ends: no command is begun any more */
	bool mixed; /* several of them have been at work since the last time there was none */
	struct violations violations;
	struct egress_port egress;
	uint64_t compare_at; /* ns: the next comparison on account of background commands */
	uint64_t
	    look_at; /* ns: the next look at what the host's git would use; 0: no command runs */
};

struct sandbox *sandbox_new(struct koda_slot *slot, struct koda_error *err);
/* Ends every process of it; who is outstanding is told. Does not wait. */
void sandbox_free(struct sandbox *sb);
/* In a forked child: it is the parent's. */
void sandbox_abandon(struct sandbox *sb);
/* The directories of the host that commands write beside the policy's, one after the other: a worktree's git directory, and
 * the caches if the policy shares them. NULL at the end. */
const char *sandbox_beside(const struct sandbox *sb, size_t i);

/* What the slot and its session say of the view, without the places that a worker found. Points into *sb. */
struct view_input sandbox_view_input(const struct sandbox *sb);

/* Make it run if it does not. 0, or -1 with *err set: KODA_UNSUPPORTED when the machine cannot, with the remedy. */
int sandbox_boot(struct sandbox *sb, struct koda_error *err);
/* Whose doing something was that the sandbox saw: with several commands nobody knows, and it is "". */
const char *sandbox_only_command(const struct sandbox *sb);
/* It broke, or hangs: kill it. Every command of it ends with KODA_UNKNOWN. */
void sandbox_kill(struct sandbox *sb, const struct koda_error *why);

/* Start koda-fs-worker, or a koda-fs-search beside it, in it, with `socket` as its descriptor 3. */
enum sandbox_worker {
	SANDBOX_FILES,
	SANDBOX_SEARCH,
};
int sandbox_start_worker(struct sandbox *sb, enum sandbox_worker which, int socket,
    struct child *ret, struct koda_error *err);

/* Mount sb->view's plan. */
int sandbox_mount(struct sandbox *sb, struct koda_error *err);
/* Nothing of it, when no command is left that it is for. */
int sandbox_unmount(struct sandbox *sb, struct koda_error *err);

/* Send an order that a command waits for; its reports go to command_report. -1: it was not sent. */
int sandbox_send(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err);

/* Wait at most timeout_ms for a report, or for its death, and take what has come. */
void sandbox_wait(struct sandbox *sb, int timeout_ms);

/* Time has passed: deadlines. */
void sandbox_tick(struct sandbox *sb);
uint64_t sandbox_next_time(const struct sandbox *sb);

#endif
