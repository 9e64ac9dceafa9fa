/*
 * A session: a root, a mode, a policy, an approval callback, and the slots. This header declares
 * what all parts of the host need from it: may the library be called now, where may callbacks run,
 * how to report events, and the loop.
 */
#ifndef KODA_HOST_SESSION_SESSION_H
#define KODA_HOST_SESSION_SESSION_H

#include "host/context/context.h"
#include "host/context/event.h"
#include "host/context/handle.h"
#include "host/context/turn.h"
#include "host/slot/slot.h"

struct pollfd;

/* Returns 0 if the library may be called in this process and at this point, -1 with *err set if
 * not. */
int session_check(const struct koda_session *ses, struct koda_error *err);

/* Around all code that may run callbacks. When session_leave() returns true, the session has
 * been freed. */
void session_enter(struct koda_session *ses);
bool session_leave(struct koda_session *ses);

/* Calls poll(), or the embedder's wait callback while a slot is acquired. Returns -1 when the
 * caller has to give up, or as poll() does. session_waits() returns true if session_poll() would
 * call the callback. */
int session_poll(struct koda_session *ses, struct pollfd *fds, size_t n, int timeout_ms);
bool session_waits(const struct koda_session *ses);

static inline void
session_watch(struct koda_session *ses, struct source *source, int fd, uint32_t events)
{
	loop_watch(&ses->loop, source, fd, events);
}

static inline void
session_unwatch(struct koda_session *ses, struct source *source)
{
	loop_unwatch(&ses->loop, source);
}

static inline void
session_wake_at(struct koda_session *ses, uint64_t at)
{
	loop_wake_at(&ses->loop, at);
}

static inline void
session_adopt(struct koda_session *ses, struct child *child)
{
	leaving_adopt(&ses->leaving, child);
}

/* approve.c: ask the embedder about a preview that has arrived. */
void approve_ask(struct koda_session *ses, struct call *c);
void approve_done(struct call *c);
/* The same for a command; the answer goes to command_answer(). */
void approve_ask_command(struct koda_session *ses, struct koda_command *c);
void approve_command_done(struct koda_command *c);

#endif
