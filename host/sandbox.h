/*
 * The kernel sandbox of one slot: bwrap, which makes the namespaces and the coarse view, and stage2, its init, which
 * does the rest and runs commands. Lives as long as the slot; what dies is built again when it is needed next.
 *
 * Starts and asks; what a command is, is in host/command; what is protected in the view in host/protect.
 * stage2 is trusted to carry out orders, not to be well: its reports are checked like a worker's replies.
 */
#ifndef KODA_HOST_SANDBOX_H
#define KODA_HOST_SANDBOX_H

#include "host/egress.h"
#include "host/session.h"
#include "host/view.h"
#include "host/violations.h"
#include "proto/stage2.pb-c.h"

#define SANDBOX_BOOT_MS                                                                            \
	10000 /* to Booted; takes about ten, a loaded machine a hundred times that */
#define SANDBOX_ANSWER_MS 10000 /* of any order that is answered at once */

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
	struct child bwrap;
	struct frame_stream fs;
	struct arena arena;
	uint64_t next_id;
	uint64_t boots;
	int said_fd; /* what bwrap and stage2 said on standard error */
	unsigned landlock_abi;
	bool connect_guard;

	/* The view. */
	char *quarantine; /* directory on the host, or NULL */
	char **
	    caches; /* what commands write beside the policy's: package caches, then a worktree's git directory */
	size_t n_caches;
	size_t n_package_caches; /* of them */
	struct view view;
	struct protect *protect;

	struct koda_command *commands; /* not over yet */
	size_t n_commands;
	bool mixed; /* several of them have been at work since the last time there was none */
	struct violations violations;
	struct egress_port egress;
	uint64_t compare_at; /* ns: the next comparison on account of background commands */
};

struct sandbox *sandbox_new(struct koda_slot *slot, struct koda_error *err);
/* Ends every process of it; who is outstanding is told. Does not wait. */
void sandbox_free(struct sandbox *sb);
/* In a forked child: it is the parent's. */
void sandbox_abandon(struct sandbox *sb);

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

/* Send an order that a command waits for; its reports go to command_report. -1: it was not sent. */
int sandbox_send(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err);

/* Time has passed: deadlines. */
void sandbox_tick(struct sandbox *sb);
uint64_t sandbox_next_time(const struct sandbox *sb);

#endif
