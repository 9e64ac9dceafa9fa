/*
 * A session: a root, a mode, a policy, somebody to ask, and the slots. Owns the loop: one epoll set
 * with every slot's descriptor and one timer, which libev (the caller's or ours) watches as a whole.
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
	uint8_t *here; /* a page that is wiped by fork: 1 in the process that opened the session */
	char *root;
	dev_t root_dev;
	ino_t root_ino;
	char *home;
	char *
	    state; /* koda's own directory (host/protect/state), there or not; NULL: there is no place for it */
	enum koda_mode mode;
	struct koda_policy *policy;
	koda_approve_fn *approve;
	koda_event_fn *event;
	void *data;
	unsigned timeout_ms, max_slots, max_idle;
	char worker_path[PATH_LEN_MAX + 1], search_path[PATH_LEN_MAX + 1];
	bool commands; /* slots have a kernel sandbox */
	char stage2_path[PATH_LEN_MAX + 1], bwrap_path[PATH_LEN_MAX + 1];
	bool intercept;
	bool narrowed;                 /* see koda_session_options */
	struct egress_session *egress; /* NULL: without commands */
	struct handle *over;           /* commands and searches whose callback is to be called */
	struct handle *unwanted;       /* of those, what was freed in an event */
	size_t n_under_way;            /* commands and searches that are not over yet */

	struct koda_slot *slots; /* acquired and idle */
	size_t n_idle, n_acquired, n_doomed;
	struct call *done_head, *done_tail; /* asynchronous calls to be told of */
	size_t n_async;
	unsigned depth; /* of our functions that callbacks are called from, one in another */
	bool in_event, closing; /* closing: asked for from inside a callback, or on the way */
	struct child *leaving;  /* killed processes that were not gone yet */
	size_t n_leaving;
	uint64_t
	    end_by; /* ns: when it closes, by then its slots have ended; 0: it does not close */
	const struct recovery_seal
	    *recovering; /* it finishes what a killed session has left (host/protect/recovery) */
	bool said_degraded;
	bool said_state;      /* that the own directory cannot be used as it should */
	bool said_caches;     /* that they are empty directories */
	bool said_root_cache; /* that a cache is writable itself */
	bool dispatching;
	struct koda_stats stats;

	int epoll_fd, timer_fd;
	uint64_t timer_at;
	struct ev_loop *loop; /* the caller's, or NULL: then the epoll set is all there is */
	struct session_watch *watch;
};

/* For the slots. */
void session_event(struct koda_session *ses, enum koda_event_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void session_call_finished(struct koda_session *ses, struct call *c);
/* Of those finished and not told yet, those that would tell `data` tell `instead`. */
void session_forget_calls(struct koda_session *ses, const void *data, koda_done_fn *instead);
/* The kernel sandbox does not work here: go on without (true, and it is said), or not (Auto). */
bool session_degrade(struct koda_session *ses, const struct koda_error *why);

/* Watch the source's descriptor for these events; fd -1: not any more (before it is closed). */
void session_watch(struct koda_session *ses, struct source *source, int fd, uint32_t events);
void session_unwatch(struct koda_session *ses, struct source *source);
/* Somebody wants a look at the clock then. */
void session_wake_at(struct koda_session *ses, uint64_t at);
/* One of n_under_way is over; its embedder is told of it from the loop, if it is to be. */
void session_over(struct handle *handle, bool to_be_told);
/* It is not to be told any more. */
void session_forget(struct handle *handle);
/* One turn of the loop, for who waits. -1: from inside a callback of it. */
int session_turn(struct koda_session *ses, int timeout_ms, struct koda_error *err);
/* The slot's state changed outside of the loop: watch for what it waits for now. */
void session_rearm(struct koda_session *ses, struct koda_slot *slot);
/* A killed process that somebody has to wait for; the session does when it has time. */
void session_adopt(struct koda_session *ses, struct child *child);

/* Around whatever may call back. After session_leave has returned true the session is gone. */
void session_enter(struct koda_session *ses);
bool session_leave(struct koda_session *ses);
/* May the library be called in this process, and from here? */
int session_check(const struct koda_session *ses, struct koda_error *err);

/* approve.c: put the question for a preview that has come back. */
void approve_ask(struct koda_session *ses, struct call *c);
void approve_done(struct call *c);
/* The same for a command; answered by command_answer. */
void approve_ask_command(struct koda_session *ses, struct koda_command *c);
void approve_command_done(struct koda_command *c);
/* The same for a host; answered by egress_answer. */
struct egress_question;
void approve_ask_connect(struct koda_session *ses, struct egress_question *q);
void approve_connect_done(struct egress_question *q);

#endif
