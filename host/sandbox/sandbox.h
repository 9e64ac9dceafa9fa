/*
 * The kernel sandbox of one slot: bwrap, which makes the namespaces and the coarse view, and
 * stage2, its init, which does the rest and runs commands. Lives as long as the slot; when its
 * processes die they are started again the next time they are needed.
 *
 * This module starts them and sends orders. host/command/command defines what a command is;
 * host/protect/protect decides what is protected in the view. The host trusts stage2 to carry out
 * orders, but not to be well-behaved: its reports are checked like a worker's replies.
 */
#ifndef KODA_HOST_SANDBOX_SANDBOX_H
#define KODA_HOST_SANDBOX_SANDBOX_H

#include "host/caches/cache_points.h"
#include "host/caches/cache_store.h"
#include "host/caches/caches.h"
#include "host/context/violations.h"
#include "host/egress/egress.h"
#include "host/machine/state.h"
#include "host/sandbox/view.h"
#include "host/session/session.h"
#include "proto/stage2.pb-c.h"

/* From the start to Booted; takes about ten milliseconds, a hundred times that on a loaded
 * machine. */
#define SANDBOX_BOOT_MS   10000
#define SANDBOX_ANSWER_MS 10000 /* for any order that stage2 answers at once */

#define SANDBOX_REASON_MAX 256

struct sandbox {
	/* The control socket. First, because a source is cast back to its sandbox. */
	struct source source;
	struct sandbox_end {
		struct source source; /* bwrap's pidfd; first */
		struct sandbox *sb;
	} end;
	struct koda_slot *slot;
	ino_t peer; /* inode of the other end of the control socket */
	bool up;
	/* A command killed processes that are not its own: check whether the sandbox is alive
	 * before the next one. */
	bool doubtful;
	/* Files in private file systems use too much memory: built again before the next
	 * command. */
	bool full;
	struct child bwrap;
	int init_fd; /* stage2's pidfd; -1: not known yet */
	pid_t init_pid;
	struct frame_stream fs;
	struct arena arena;
	uint64_t next_id;
	uint64_t boots;
	int said_fd; /* the standard error of bwrap and stage2 */

	/* The view. */
	struct state state; /* koda's own directory, locked while the slot lives */
	int quarantine_fd;  /* passed to the worker; -1: there is none */
	struct caches caches;
	const char **cache; /* their paths, for the view */
	/* What commands may write beyond the policy's places: a worktree's git directory, or
	 * NULL. */
	char *git_dir;
	struct cache_points points;         /* also of this boot */
	struct cache_store layers;          /* of this boot; closed when there are none */
	char no_layers[SANDBOX_REASON_MAX]; /* why there are none */
	/* The root was a git directory before any command of this slot ran. */
	bool root_is_git_dir;
	struct view view;
	struct protect *protect;

	struct koda_command *commands; /* not over yet */
	size_t n_commands;
	/* Commands whose handle was freed before stage2 has reported their end. */
	size_t n_given_up;
	bool ended; /* the slot is ending: no command is started any more */
	/* Several commands have run at the same time since the last time none was running. */
	bool mixed;
	struct violations violations;
	struct egress_port egress;
	uint64_t compare_at; /* ns: the next comparison for background commands; 0: none */
	/* ns: the next check of what the host's git would use; 0: no command runs. */
	uint64_t look_at;
};

struct sandbox *sandbox_new(struct koda_slot *slot, struct koda_error *err);
/* Ends all its processes and every command that is not over. Waits for stage2 to be gone, for a
 * short time, if mount points for caches were made on the host. */
void sandbox_free(struct sandbox *sb);
/* In a forked child: release it without touching the parent's processes. */
void sandbox_abandon(struct sandbox *sb);
/* The i-th directory of the host that commands may write beyond the policy's places: a worktree's
 * git directory, and the caches if the policy shares them. NULL beyond the last. */
const char *sandbox_beside(const struct sandbox *sb, size_t i);

/* The part of the view's input that comes from the slot and its session, without the places that a
 * worker found. Points into *sb. */
struct view_input sandbox_view_input(const struct sandbox *sb);

/* Start it if it is not running. Returns 0, or -1 with *err set: KODA_UNSUPPORTED, with the remedy,
 * if the machine cannot run it. */
int sandbox_boot(struct sandbox *sb, struct koda_error *err);
/* The command to blame for an event of the sandbox: the only one running, or "" if there are or
 * were several. */
const char *sandbox_only_command(const struct sandbox *sb);
/* Kill a sandbox that is broken or hangs. Every command that was running ends with KODA_UNKNOWN. */
void sandbox_kill(struct sandbox *sb, const struct koda_error *why);

/* Start koda-fs-worker, or a koda-fs-search beside it, in the sandbox, with `socket` as its
 * descriptor 3. */
enum sandbox_worker {
	SANDBOX_FILES,
	SANDBOX_SEARCH,
};
int sandbox_start_worker(struct sandbox *sb, enum sandbox_worker which, int socket,
    struct child *ret, struct koda_error *err);

/* Mount the plan of sb->view. */
int sandbox_mount(struct sandbox *sb, struct koda_error *err);
/* Unmount the whole plan, when no command is left that needs it. */
int sandbox_unmount(struct sandbox *sb, struct koda_error *err);

/* Send an order for a command; the reports on it go to command_report. Returns -1 with *err set if
 * it was not sent. */
int sandbox_send(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err);

/* Wait at most timeout_ms for a report or for the sandbox's death, and process what has come. */
void sandbox_wait(struct sandbox *sb, int timeout_ms);

/* Handle deadlines that have passed. */
void sandbox_tick(struct sandbox *sb);
uint64_t sandbox_next_time(const struct sandbox *sb);

#endif
