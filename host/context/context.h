/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session, as all parts of the host see it: what it was opened with, its loop, its callbacks, and
 * what is finished but not reported yet. The functions are declared in the other headers of this
 * folder. The parts themselves (slots, egress) are known to host/session only.
 */
#ifndef KODA_HOST_CONTEXT_CONTEXT_H
#define KODA_HOST_CONTEXT_CONTEXT_H

#include <sys/types.h>

#include "host/loop/leaving.h"
#include "host/loop/loop.h"
#include "shared/base/bytes.h"
#include "shared/wire/protocol.h"

#define TICKERS_MAX 2 /* slots; egress */

struct asked;
struct egress_session;
struct finished;
struct handle;
struct files_history;
struct recovery_seal;
struct ticker;

struct koda_session {
	/* A page that fork wipes: 1 only in the process that opened the session. */
	uint8_t *here;
	char *root;
	dev_t root_dev;
	ino_t root_ino;
	char *home;
	/* koda's own directory (host/machine/state), whether it exists or not; NULL: there is no
	 * place for it. */
	char *state;
	enum koda_mode mode;
	struct koda_policy *policy;
	koda_approve_fn *approve;
	koda_event_fn *event;
	koda_wait_fn *wait; /* NULL: poll() */
	void *data;
	unsigned timeout_ms, max_slots, max_idle;
	char worker_path[PATH_LEN_MAX + 1], search_path[PATH_LEN_MAX + 1];
	bool commands; /* slots have a kernel sandbox */
	char stage2_path[PATH_LEN_MAX + 1], bwrap_path[PATH_LEN_MAX + 1];
	/* Starts bwrap under its AppArmor profile; "": not installed, bwrap is started directly. */
	char launch_path[PATH_LEN_MAX + 1];
	bool intercept;
	bool narrowed; /* see koda_session_options */
	/* Commands are the library's own (host/copy/confined): nothing that they make is compared
	 * with what was there before; the rules on places hold for them, too. */
	bool own_commands;
	struct egress_session *egress; /* NULL: without commands */
	struct handle *over;           /* commands and searches whose callback has yet to run */
	struct handle *unwanted;       /* commands and searches freed in the event callback */
	struct asked *answers;         /* given in the event callback, not acted on yet */
	size_t n_under_way;            /* commands and searches that are not over yet */

	struct koda_slot *slots; /* acquired and idle */
	size_t n_idle, n_acquired, n_doomed;
	size_t n_dropped; /* slots whose commands are to be freed, see koda_slot.dropped */
	struct finished *finished, *finished_last; /* calls whose callback has yet to run */
	size_t n_async;                            /* asynchronous calls, also those */
	/* How many library functions that may run callbacks are on the stack, one inside
	 * another. */
	unsigned depth;
	/* The outermost one of them returns: free what could not be freed inside. Returns true if
	 * that was the session. */
	bool (*on_left)(struct koda_session *ses);
	/* closing: koda_session_close() was called from inside a callback, or is at work. */
	bool in_event, closing;
	/* in_wait: the wait callback runs. given_up: it told the host to give up, or closed the
	 * session. */
	bool acquiring, in_wait, given_up;
	struct leaving leaving;
	/* ns: while the session closes, the time by which its slots have to have ended; 0: it is
	 * not closing. */
	uint64_t end_by;
	/* Set while a slot finishes what a killed session left behind (host/workspace/recovery). */
	const struct recovery_seal *recovering;
	/* What this session's workers are sealed with to apply a draft, or to take changes back. */
	const struct held_seal *held;
	bool no_history;
	uint64_t history_bytes; /* 0: the default */
	/* A change may have been left in the middle: its worker was killed, and no other was asked. */
	bool unsettled;
	bool settled; /* what killed sessions of this root have left was looked for */
	/* The entry of the history that file operations of this session go to; NULL: there is none (yet). */
	struct files_history *keeping;
	/* What was reported as KODA_EVENT_DEGRADED, so that it is reported once a session: */
	bool said_degraded;   /* the worker is not confined in full */
	bool said_commands;   /* commands are not */
	bool said_state;      /* koda's own directory cannot be used as it should be */
	bool said_caches;     /* caches are empty directories in the sandbox */
	bool said_root_cache; /* the policy makes a cache itself writable */
	bool said_history;    /* there is no place for the history, or not for everything */
	struct koda_stats stats;
	struct loop loop;
	const struct ticker *ticker[TICKERS_MAX]; /* the parts with a share in each turn */
	size_t n_tickers;
};

#endif
