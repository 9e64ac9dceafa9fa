/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a slot's kernel sandbox, and what it needs of the parts above it. The functions are
 * declared in the other headers of this folder.
 */
#ifndef KODA_HOST_SANDBOX_STATE_H
#define KODA_HOST_SANDBOX_STATE_H

#include "host/caches/cache_points.h"
#include "host/caches/cache_store.h"
#include "host/caches/caches.h"
#include "host/context/context.h"
#include "host/context/violations.h"
#include "host/draft/store.h"
#include "host/egress/egress.h"
#include "host/machine/state.h"
#include "host/policy/policy_api.h"
#include "host/sandbox/view.h"
#include "proto/stage2.pb-c.h"

#define SANDBOX_ANSWER_MS 10000 /* for any order that stage2 answers at once */

#define SANDBOX_REASON_MAX 256

/* The commands of the slot (host/command/commands). */
struct sandbox_client {
	/* The command to blame for an event of the sandbox: the only one running, or "" if there are
	 * or were several. */
	const char *(*blame)(const void *data);
	/* stage2 reports on the order with that id. */
	void (*report)(void *data, const Koda__Report *report);
	/* The sandbox is gone, and with it every command that was running. */
	void (*lost)(void *data, const struct koda_error *why);
	/* A protected name has appeared: compare soon. */
	void (*appeared)(void *data);
};

struct sandbox {
	/* The control socket. First, because a source is cast back to its sandbox. */
	struct source source;
	struct sandbox_end {
		struct source source; /* bwrap's pidfd; first */
		struct sandbox *sb;
	} end;
	struct koda_session *ses;
	struct koda_policy *policy; /* a reference */
	struct violations *violations;
	const struct sandbox_client *client;
	void *data; /* the client's */
	ino_t peer; /* inode of the other end of the control socket */
	bool up;
	/* A command killed processes that are not its own: check whether the sandbox is alive
	 * before the next one. */
	bool doubtful;
	/* Places that were hidden from the worker while commands ran are visible: it has to read
	 * all directories again. */
	bool uncovered;
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

	/* Where changes go instead of the project. */
	bool drafted;
	struct draft draft;
	bool draft_failed; /* the kernel refused the last boot's overlays */
	bool unconfined;   /* the last boot left commands less confined than Auto wants */
	bool
	    draft_unused; /* made for this sandbox, and no command was able to change anything yet */
	/* What the root is for the worker of this boot, with a draft. */
	dev_t root_dev;
	ino_t root_ino;

	struct egress_port egress;
};

#endif
