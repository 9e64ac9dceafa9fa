/*
 * A session: a root, a mode, a policy, an approval callback, and the slots. Owns the loop: one
 * epoll set with every slot's descriptor and one timer. libev (the caller's loop, if there is one)
 * watches the whole set as one descriptor.
 */
#ifndef KODA_HOST_SESSION_SESSION_H
#define KODA_HOST_SESSION_SESSION_H

#include <sys/types.h>

#include "host/loop/source.h"
#include "host/session/handle.h"
#include "host/slot/slot.h"
#include "shared/base/bytes.h"

struct ev_loop;
struct recovery_seal;

struct koda_session {
	/* A page that fork wipes: 1 only in the process that opened the session. */
	uint8_t *here;
	char *root;
	dev_t root_dev;
	ino_t root_ino;
	char *home;
	/* koda's own directory (host/protect/state), whether it exists or not; NULL: there is no
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
	bool intercept;
	bool narrowed;                 /* see koda_session_options */
	struct egress_session *egress; /* NULL: without commands */
	struct handle *over;           /* commands and searches whose callback is to be called */
	struct handle *unwanted;       /* commands and searches freed in the event callback */
	size_t n_under_way;            /* commands and searches that are not over yet */

	struct koda_slot *slots; /* acquired and idle */
	size_t n_idle, n_acquired, n_doomed;
	struct call *done_head, *done_tail; /* finished calls whose callback has not run */
	size_t n_async;
	/* How many library functions that may run callbacks are on the stack, one inside
	 * another. */
	unsigned depth;
	/* closing: koda_session_close() was called from inside a callback, or is at work. */
	bool in_event, closing;
	/* in_wait: the wait callback runs. given_up: it said so, or closed the session. */
	bool acquiring, in_wait, given_up;
	/* Killed processes that are not reaped yet. */
	struct child *leaving;
	size_t n_leaving;
	/* ns: while the session closes, the time by which its slots have to have ended; 0: it is
	 * not closing. */
	uint64_t end_by;
	/* Set while a slot finishes what a killed session left behind (host/protect/recovery). */
	const struct recovery_seal *recovering;
	/* What was reported as KODA_EVENT_DEGRADED, so that it is reported once a session: */
	bool said_degraded;   /* the worker is not confined in full */
	bool said_state;      /* koda's own directory cannot be used as it should be */
	bool said_caches;     /* caches are empty directories in the sandbox */
	bool said_root_cache; /* the policy makes a cache itself writable */
	bool dispatching;
	struct koda_stats stats;

	int epoll_fd, timer_fd;
	uint64_t timer_at;
	struct ev_loop *loop; /* the caller's, or NULL: there is only the epoll set */
	struct session_watch *watch;
};

/* For the slots. */
void session_event(struct koda_session *ses, enum koda_event_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void session_call_finished(struct koda_session *ses, struct call *c);
/* For finished calls whose callback has not run: if the call's user data is `data`, run
 * `instead`. */
void session_forget_calls(struct koda_session *ses, const void *data, koda_done_fn *instead);
/* The kernel sandbox does not work here. Returns true if the session goes on without it (which is
 * reported), false if it may not (Auto). */
bool session_degrade(struct koda_session *ses, const struct koda_error *why);

/* Watch `fd` as the source's descriptor for these events. fd -1: stop watching; do so before the
 * descriptor is closed. */
void session_watch(struct koda_session *ses, struct source *source, int fd, uint32_t events);
void session_unwatch(struct koda_session *ses, struct source *source);
/* Make the loop wake up at that time (ns) at the latest. */
void session_wake_at(struct koda_session *ses, uint64_t at);
/* A handle counted in n_under_way is over. If to_be_told, the loop runs the embedder's callback
 * later. */
void session_over(struct handle *handle, bool to_be_told);
/* Do not run the callback of that handle any more. */
void session_forget(struct handle *handle);
/* One turn of the loop, for a function that waits. Returns -1 when called from inside one of the
 * loop's callbacks. */
int session_turn(struct koda_session *ses, int timeout_ms, struct koda_error *err);
/* The slot's state changed outside of the loop: watch for what it waits for now. */
void session_rearm(struct koda_session *ses, struct koda_slot *slot);
/* poll(), or the embedder's wait callback while a slot is acquired. Returns -1 when the caller has to
 * give up, or as poll() does. session_waits() returns true if it is the callback's. */
int session_poll(struct koda_session *ses, struct pollfd *fds, size_t n, int timeout_ms);
bool session_waits(const struct koda_session *ses);
/* Takes over a killed process that has to be reaped. Does not wait, unless memory is short; the
 * loop reaps it later. */
void session_adopt(struct koda_session *ses, struct child *child);

/* Around all code that may run callbacks. When session_leave() returns true, the session has
 * been freed. */
void session_enter(struct koda_session *ses);
bool session_leave(struct koda_session *ses);
/* Returns 0 if the library may be called in this process and at this point, -1 with *err set if
 * not. */
int session_check(const struct koda_session *ses, struct koda_error *err);

/* approve.c: ask the embedder about a preview that has arrived. */
void approve_ask(struct koda_session *ses, struct call *c);
void approve_done(struct call *c);
/* The same for a command; the answer goes to command_answer(). */
void approve_ask_command(struct koda_session *ses, struct koda_command *c);
void approve_command_done(struct koda_command *c);

#endif
