#include "host/session/session.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/command/command.h"
#include "host/egress/egress.h"
#include "host/machine/helpers.h"
#include "host/machine/home.h"
#include "host/policy/trust.h"
#include "host/protect/ending.h"
#include "host/protect/protect.h"
#include "host/protect/recovery.h"
#include "host/protect/state.h"
#include "host/sandbox/sandbox.h"
#include "host/search/search.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define TIMEOUT_MS_DEFAULT 30000
#define SLOTS_DEFAULT      128
#define IDLE_DEFAULT       8
#define LEAVING_MS         2000 /* how long closing waits for killed workers to be gone */
#define EVENTS_AT_ONCE     32

struct session_watch {
	ev_io io;
};

/* ---- the process that owns the session ---- */

int
session_check(const struct koda_session *ses, struct koda_error *err)
{
	if (*ses->here != 1)
		return err_set(err, KODA_INTERNAL, 0,
		    "this session belongs to the process that opened it, not to its forked child");
	if (ses->closing)
		return err_set(err, KODA_INTERNAL, 0, "this session is being closed");
	/* The event callback runs in the middle of the operation that it reports. */
	if (ses->in_event)
		return err_set(err, KODA_INTERNAL, 0, "called from inside the event callback");
	if (ses->in_wait)
		return err_set(err, KODA_INTERNAL, 0, "called from inside the wait callback");
	return 0;
}

bool
session_waits(const struct koda_session *ses)
{
	return ses->acquiring && ses->wait != NULL;
}

int
session_poll(struct koda_session *ses, struct pollfd *fds, size_t n, int timeout_ms)
{
	if (!session_waits(ses))
		return poll(fds, n, timeout_ms);
	if (!ses->given_up) {
		ses->in_wait = true;
		ses->given_up = ses->wait(ses->data, fds, n, timeout_ms) < 0;
		ses->in_wait = false;
		ses->given_up |= ses->closing;
	}
	/* The callback may have served others for a long time since it looked. */
	return ses->given_up ? -1 : poll(fds, n, 0);
}

void
session_enter(struct koda_session *ses)
{
	ses->depth++;
}

/* ---- what slots report ---- */

void
session_event(struct koda_session *ses, enum koda_event_kind kind, const char *fmt, ...)
{
	char text[KODA_MESSAGE_MAX];
	va_list ap;

	if (ses->event == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ses->in_event = true;
	ses->depth++;
	ses->event(ses->data, kind, text);
	ses->depth--;
	ses->in_event = false;
}

void
session_adopt(struct koda_session *ses, struct child *child)
{
	struct child *more;

	if (child_gone(child, 0))
		return;
	more = realloc(ses->leaving, (ses->n_leaving + 1) * sizeof(*more));
	if (more == NULL) {
		child_gone(child, LEAVING_MS);
		return;
	}
	ses->leaving = more;
	ses->leaving[ses->n_leaving++] = *child;
	child->pidfd = -1;
}

/* Waits at most timeout_ms for all of them together. */
static void
reap_leaving(struct koda_session *ses, int timeout_ms)
{
	const uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * 1000000;

	for (size_t i = 0; i < ses->n_leaving;) {
		uint64_t now = timeout_ms > 0 ? monotonic_ns() : until;

		if (child_gone(&ses->leaving[i], now < until ? (int)((until - now) / 1000000) : 0))
			ses->leaving[i] = ses->leaving[--ses->n_leaving];
		else
			i++;
	}
}

/* ---- the loop ---- */

static void
set_timer(struct koda_session *ses, uint64_t at)
{
	struct itimerspec its = { 0 };

	/* Each call moves the deadline: a timer that fires too early is cheaper than setting it for
	 * each call. */
	if (at == ses->timer_at || (at > ses->timer_at && at != UINT64_MAX))
		return;
	ses->timer_at = at;
	if (at != UINT64_MAX) {
		its.it_value.tv_sec = (time_t)(at / 1000000000);
		its.it_value.tv_nsec = (long)(at % 1000000000);
		if (at == 0)
			its.it_value.tv_nsec = 1; /* zero would disarm it */
	}
	timerfd_settime(ses->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
}

void
session_call_finished(struct koda_session *ses, struct call *c)
{
	if (c->done == NULL)
		return;
	c->slot = NULL;
	c->next = NULL;
	if (ses->done_tail != NULL)
		ses->done_tail->next = c;
	else
		ses->done_head = c;
	ses->done_tail = c;
	/* The call may have finished inside a synchronous call: wake up the loop to run its
	 * callback. */
	if (!ses->dispatching)
		set_timer(ses, 0);
}

void
session_forget_calls(struct koda_session *ses, const void *data, koda_done_fn *instead)
{
	for (struct call *c = ses->done_head; data != NULL && c != NULL; c = c->next)
		if (c->data == data)
			c->done = instead;
}

void
session_watch(struct koda_session *ses, struct source *source, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = source };

	if (source->fd == fd && source->events == events)
		return;
	if (source->fd >= 0 && source->fd != fd)
		epoll_ctl(ses->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	if (fd >= 0 && (source->fd != fd || epoll_ctl(ses->epoll_fd, EPOLL_CTL_MOD, fd, &ev) < 0))
		epoll_ctl(ses->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
	source->fd = fd;
	source->events = events;
}

void
session_unwatch(struct koda_session *ses, struct source *source)
{
	if (source->fd >= 0)
		session_watch(ses, source, -1, 0);
}

void
session_wake_at(struct koda_session *ses, uint64_t at)
{
	if (at < ses->timer_at)
		set_timer(ses, at);
}

void
session_rearm(struct koda_session *ses, struct koda_slot *slot)
{
	uint32_t events;
	uint64_t at;
	int fd;

	slot_wait_for(slot, &fd, &events, &at);
	session_watch(ses, &slot->source, fd, events);
	if (at < ses->timer_at)
		set_timer(ses, at);
}

static void
rearm_all(struct koda_session *ses)
{
	uint64_t first = ses->done_head != NULL || ses->over != NULL ? 0 : UINT64_MAX;

	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next) {
		uint32_t events;
		uint64_t at;
		int fd;

		if (slot->sandbox != NULL && (at = sandbox_next_time(slot->sandbox)) < first)
			first = at;
		if ((at = search_next_time(slot)) < first)
			first = at;
		if (slot->source.fd < 0 && slot->n_calls == 0)
			continue;
		slot_wait_for(slot, &fd, &events, &at);
		session_watch(ses, &slot->source, fd, events);
		if (at < first)
			first = at;
	}
	if (egress_next_time(ses) < first)
		first = egress_next_time(ses);
	set_timer(ses, first);
}

/* Only the calls that are finished now: a callback that starts another call gets its turn, but does
 * not keep the loop from its other work. */
static void
deliver(struct koda_session *ses)
{
	const struct call *last = ses->done_tail;
	struct call *c;
	bool more = true;

	while (more && (c = ses->done_head) != NULL) {
		more = c != last;
		ses->done_head = c->next;
		if (ses->done_head == NULL)
			ses->done_tail = NULL;
		ses->n_async--;
		c->done(c->data, &c->result, c->err.code == KODA_OK ? NULL : &c->err);
		call_done(c);
		free(c);
	}
}

/* Runs the callbacks of commands and searches that are over. */
static void
tell_of_those_over(struct koda_session *ses)
{
	struct handle *h;

	while ((h = ses->over) != NULL) {
		session_forget(h);
		h->tell(h); /* which may free this handle, or others in the list */
	}
}

/* Wait at most timeout_ms (-1: no limit) for an event, and do everything that can be done then. */
static void
work(struct koda_session *ses, int timeout_ms)
{
	struct epoll_event ev[EVENTS_AT_ONCE];
	uint64_t expirations;
	int n;

	if (ses->dispatching)
		return; /* called from one of its own callbacks */
	ses->dispatching = true;
	session_enter(ses);
	n = epoll_wait(ses->epoll_fd, ev, EVENTS_AT_ONCE, timeout_ms);
	for (int i = 0; i < n; i++) {
		struct source *source = ev[i].data.ptr;

		/* A source that an earlier one in this round stopped still exists, but is not
		 * watched any more. */
		if (source != NULL && source->fd >= 0)
			source->ready(source);
		else if (source == NULL &&
		    read(ses->timer_fd, &expirations, sizeof(expirations)) > 0)
			ses->timer_at = UINT64_MAX;
	}
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next) {
		if (slot->sandbox != NULL)
			sandbox_tick(slot->sandbox);
		search_tick(slot);
		if (slot->n_calls > 0 || slot->state == SLOT_DYING) {
			slot_tick(slot);
			slot_ask(slot);
		}
	}
	egress_tick(ses);
	deliver(ses);
	tell_of_those_over(ses);
	/* The calls that callbacks have just queued are sent together. */
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		if (slot->n_queued > 0)
			slot_advance(slot);
	if (ses->n_leaving > 0)
		reap_leaving(ses, 0);
	rearm_all(ses);
	ses->dispatching = false;
	session_leave(ses);
}

int
session_turn(struct koda_session *ses, int timeout_ms, struct koda_error *err)
{
	if (ses->dispatching)
		return err_set(err, KODA_INVALID, 0, "waited for from inside a callback");
	work(ses, timeout_ms);
	return 0;
}

void
session_over(struct handle *handle, bool to_be_told)
{
	struct koda_session *ses = handle->ses;
	struct handle **end = &ses->over;

	handle->over = true;
	ses->n_under_way--;
	if (!to_be_told || handle->is_unwanted)
		return;
	handle->in_line = true;
	handle->next = NULL;
	while (*end != NULL)
		end = &(*end)->next;
	*end = handle;
	if (!ses->dispatching)
		set_timer(ses, 0);
}

void
session_forget(struct handle *handle)
{
	struct handle **at;

	if (!handle->in_line)
		return;
	for (at = &handle->ses->over; *at != handle;)
		at = &(*at)->next;
	*at = handle->next;
	handle->in_line = false;
}

static void
on_ready(struct ev_loop *loop, ev_io *io, int revents)
{
	work(io->data, 0);
}

int
koda_session_fd(const struct koda_session *ses)
{
	return ses->epoll_fd;
}

int
koda_session_dispatch(struct koda_session *ses, int timeout_ms, struct koda_error *err)
{
	int n;

	if (session_check(ses, err) < 0)
		return -1;
	if (ses->loop != NULL)
		return err_set(err, KODA_INVALID, 0, "the loop is the caller's: run that");
	if (ses->dispatching)
		return err_set(err, KODA_INVALID, 0, "dispatch from inside a callback of dispatch");
	if (ses->n_async + ses->n_under_way == 0 && ses->over == NULL && timeout_ms < 0)
		return 0;
	session_enter(ses);
	work(ses, timeout_ms);
	n = (int)(ses->n_async + ses->n_under_way);
	return session_leave(ses) ? 0 : n;
}

/* ---- opening and closing ---- */

static int
open_loop(struct koda_session *ses, struct ev_loop *loop, struct koda_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };

	ses->timer_at = UINT64_MAX;
	ses->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ses->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ses->epoll_fd < 0 || ses->timer_fd < 0 ||
	    epoll_ctl(ses->epoll_fd, EPOLL_CTL_ADD, ses->timer_fd, &ev) < 0)
		return err_set(err, KODA_INTERNAL, errno, "event loop");
	if (loop == NULL)
		return 0;
	ses->watch = calloc(1, sizeof(*ses->watch));
	if (ses->watch == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "event loop");
	ses->loop = loop;
	ev_io_init(&ses->watch->io, on_ready, ses->epoll_fd, EV_READ);
	ses->watch->io.data = ses;
	ev_io_start(ses->loop, &ses->watch->io);
	return 0;
}

static int
open_root(struct koda_session *ses, const char *root, struct koda_error *err)
{
	struct stat st;

	if (root == NULL || root[0] == '\0')
		return err_set(err, KODA_INVALID, 0, "a session needs a root");
	ses->root = realpath(root, NULL);
	if (ses->root == NULL || stat(ses->root, &st) < 0)
		return err_set(err, KODA_INVALID, errno, "root '%s'", root);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, KODA_INVALID, 0, "root '%s' is not a directory", root);
	ses->root_dev = st.st_dev;
	ses->root_ino = st.st_ino;
	return 0;
}

static int
open_policy(struct koda_session *ses, const struct koda_session_options *o, struct koda_error *err)
{
	if (o->policy != NULL) {
		if (!koda_policy_frozen(o->policy))
			return err_set(err, KODA_INVALID, 0, "the policy is not frozen");
		ses->policy = koda_policy_ref(o->policy);
		return 0;
	}
	ses->policy = koda_policy_for_agent(ses->mode, ses->root, err);
	return ses->policy == NULL ? -1 : koda_policy_freeze(ses->policy, err);
}

/* In Plan and Safe the session goes on without commands and reports it; in Auto it fails. */
bool
session_degrade(struct koda_session *ses, const struct koda_error *why)
{
	if (ses->mode == KODA_AUTO)
		return false;
	if (ses->commands)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "no kernel sandbox, so no commands, file operations only: %s", why->message);
	ses->commands = false;
	return true;
}

static int
find_helpers(struct koda_session *ses, const struct koda_session_options *o, struct koda_error *err)
{
	if (helpers_find(o->helper_dir, "koda-fs-worker", ses->worker_path, err) < 0)
		return -1;
	/* If it is missing, searches report that; everything else works without it. */
	if (helpers_find(o->helper_dir, "koda-fs-search", ses->search_path, NULL) < 0)
		ses->search_path[0] = '\0';
	ses->commands = o->commands;
	if (!ses->commands)
		return 0;
	if (helpers_find(o->helper_dir, "koda-sandbox-stage2", ses->stage2_path, err) < 0)
		return -1;
	if (egress_open(ses, o->helper_dir, err) < 0)
		return -1;
	ses->intercept = o->intercept;
	ses->narrowed = o->narrowed;
	return helpers_find_bwrap(ses->bwrap_path, err) < 0 && !session_degrade(ses, err) ? -1 : 0;
}

static int
open_session(struct koda_session *ses, const struct koda_session_options *o, struct koda_error *err)
{
	ses->here = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ses->here == MAP_FAILED) {
		ses->here = NULL;
		return err_set(err, KODA_INTERNAL, errno, "session");
	}
	if (madvise(ses->here, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "MADV_WIPEONFORK");
	*ses->here = 1;
	if (sodium_init() < 0)
		return err_set(err, KODA_UNSUPPORTED, 0, "libsodium cannot be used");
	if (o->mode != KODA_PLAN && o->mode != KODA_SAFE && o->mode != KODA_AUTO)
		return err_set(err, KODA_INVALID, 0, "no such mode: %d", (int)o->mode);
	ses->mode = o->mode;
	ses->approve = o->approve;
	ses->event = o->event;
	ses->wait = o->wait;
	ses->data = o->data;
	ses->timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : TIMEOUT_MS_DEFAULT;
	ses->max_slots = o->max_slots != 0 ? o->max_slots : SLOTS_DEFAULT;
	ses->max_idle = o->max_idle != 0 ? o->max_idle : IDLE_DEFAULT;
	/* Helpers are found first, so that nothing in the project influences where they are. */
	if (find_helpers(ses, o, err) < 0 || open_root(ses, o->root, err) < 0 ||
	    open_policy(ses, o, err) < 0)
		return -1;
	ses->home = home_find();
	if (ses->home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "session");
	ses->state = state_path(ses->home);
	if (ses->state != NULL && path_is_inside(ses->root, ses->state))
		return err_set(err, KODA_INVALID, 0,
		    "the root '%.400s' is in '%.400s', koda-sandbox's own directory, which nobody sees: choose another "
		    "root, or another XDG_STATE_HOME",
		    ses->root, ses->state);
	return open_loop(ses, o->loop, err);
}

struct koda_session *
koda_session_open(const struct koda_session_options *options, struct koda_error *err)
{
	struct koda_session *ses;

	err_clear(err);
	if (options == NULL || options->version != KODA_SESSION_OPTIONS_VERSION) {
		err_set(err, KODA_INVALID, 0,
		    "session options of an unknown version: start from KODA_SESSION_OPTIONS_INIT");
		return NULL;
	}
	ses = calloc(1, sizeof(*ses));
	if (ses == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "session");
		return NULL;
	}
	ses->epoll_fd = ses->timer_fd = -1;
	if (open_session(ses, options, err) < 0) {
		koda_session_close(ses);
		return NULL;
	}
	return ses;
}

static void
unlink_slot(struct koda_session *ses, struct koda_slot *slot)
{
	if (slot->prev != NULL)
		slot->prev->next = slot->next;
	else
		ses->slots = slot->next;
	if (slot->next != NULL)
		slot->next->prev = slot->prev;
	if (slot->acquired)
		ses->n_acquired--;
	else
		ses->n_idle--;
}

static void
drop_slot(struct koda_session *ses, struct koda_slot *slot)
{
	unlink_slot(ses, slot);
	slot_free(slot);
}

/* In a forked child: free memory and close descriptors, but do not touch the workers, which are the
 * parent's to signal. */
static void
abandon(struct koda_session *ses)
{
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next) {
		if (slot->child.pidfd >= 0)
			close(slot->child.pidfd);
		slot->child.pidfd = -1;
		slot->state = SLOT_DOWN;
		slot->source.fd = -1; /* the epoll set is shared with the parent */
		search_abandon_all(slot);
		if (slot->sandbox != NULL)
			sandbox_abandon(slot->sandbox);
	}
	egress_abandon(ses);
	for (size_t i = 0; i < ses->n_leaving; i++)
		close(ses->leaving[i].pidfd);
	ses->n_leaving = 0;
	ses->dispatching = true; /* so that the timer, shared too, stays as it is */
}

static void
forget_done(struct koda_session *ses)
{
	struct call *c;

	while ((c = ses->done_head) != NULL) {
		ses->done_head = c->next;
		call_done(c);
		free(c);
	}
}

/* The embedder may still free these handles. */
static void
forget_those_over(struct koda_session *ses)
{
	while (ses->over != NULL)
		session_forget(ses->over);
}

static void
give_up_unwanted(struct koda_session *ses)
{
	struct handle *h;

	while ((h = ses->unwanted) != NULL) {
		ses->unwanted = h->unwanted;
		h->is_unwanted = false;
		h->give_up(h);
	}
}

bool
session_leave(struct koda_session *ses)
{
	struct koda_slot *slot, *next;

	if (ses->depth == 1)
		give_up_unwanted(ses);
	if (--ses->depth > 0)
		return false;
	if (ses->closing) {
		koda_session_close(ses);
		return true;
	}
	/* Freeing a slot may report events. */
	ses->depth++;
	for (slot = ses->n_doomed > 0 ? ses->slots : NULL; slot != NULL; slot = next) {
		next = slot->next;
		if (slot->doomed)
			drop_slot(ses, slot);
	}
	ses->depth--;
	ses->n_doomed = 0;
	return false;
}

void
koda_session_close(struct koda_session *ses)
{
	bool here;

	if (ses == NULL)
		return;
	here = ses->here == NULL || *ses->here == 1;
	ses->closing = true;
	if (here && ses->depth > 0)
		return; /* from inside a callback: session_leave does it */
	if (!here)
		abandon(ses);
	ses->depth++; /* callbacks that run now may call release or close */
	ses->end_by = monotonic_ns() + ENDING_MS * UINT64_C(1000000);
	give_up_unwanted(ses);
	while (ses->slots != NULL)
		drop_slot(ses, ses->slots);
	give_up_unwanted(ses);
	if (here) {
		deliver(ses);
		tell_of_those_over(ses);
	} else {
		forget_done(ses);
		forget_those_over(ses);
	}
	egress_close(ses);
	reap_leaving(ses, LEAVING_MS);
	free(ses->leaving);
	/* In a forked child too: the loop's memory is the child's own, and must not point at this
	 * session when the child runs it. */
	if (ses->loop != NULL)
		ev_io_stop(ses->loop, &ses->watch->io);
	free(ses->watch);
	if (ses->epoll_fd >= 0)
		close(ses->epoll_fd);
	if (ses->timer_fd >= 0)
		close(ses->timer_fd);
	koda_policy_free(ses->policy);
	free(ses->root);
	free(ses->home);
	free(ses->state);
	if (ses->here != NULL)
		munmap(ses->here, (size_t)sysconf(_SC_PAGESIZE));
	free(ses);
}

const struct koda_policy *
koda_session_policy(const struct koda_session *ses)
{
	return ses->policy;
}

void
koda_session_stats(const struct koda_session *ses, struct koda_stats *ret)
{
	*ret = ses->stats;
	ret->slots = ses->n_acquired;
	ret->workers = 0;
	for (const struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		ret->workers += slot->state == SLOT_STARTING || slot->state == SLOT_UP;
}

/* ---- the pool ---- */

static int
ping(struct koda_slot *slot, struct koda_error *err)
{
	const struct koda_op op = { .kind = KODA_OP_PING, .timeout_ms = SLOT_READY_MS };
	struct koda_result none;
	int r = koda_call(slot, &op, &none, err);

	koda_result_done(&none);
	return r;
}

/* Slots are matched by the whole policy; root and mode are the same for the session. */
static struct koda_slot *
find_idle(struct koda_session *ses, const struct koda_policy *policy)
{
	for (struct koda_slot *slot = ses->slots; slot != NULL; slot = slot->next)
		if (!slot->acquired && !slot->doomed && koda_policy_equal(slot->policy, policy))
			return slot;
	return NULL;
}

static void
mark_acquired(struct koda_session *ses, struct koda_slot *slot, bool acquired)
{
	if (slot->acquired == acquired)
		return;
	slot->acquired = acquired;
	ses->n_acquired += acquired ? 1 : -1;
	ses->n_idle += acquired ? -1 : 1;
}

static struct koda_slot *
add_slot(struct koda_session *ses, struct koda_policy *policy, struct koda_error *err)
{
	struct koda_slot *slot = slot_new(ses, policy, err);
	int r;

	if (slot == NULL)
		return NULL;
	slot->next = ses->slots;
	if (ses->slots != NULL)
		ses->slots->prev = slot;
	ses->slots = slot;
	ses->n_idle++;
	if (ses->commands && (slot->sandbox = sandbox_new(slot, err)) == NULL) {
		drop_slot(ses, slot);
		return NULL;
	}
	/* Before the slot looks at the project, which may contain planted files. */
	ses->depth++;
	r = recovery_run(slot, err);
	ses->depth--;
	if (r < 0) {
		drop_slot(ses, slot);
		return NULL;
	}
	return slot;
}

/* On a new slot this starts the worker; on an idle one it notices that the worker has died and
 * replaces it. */
static int
make_ready(struct koda_session *ses, struct koda_slot *slot, struct koda_error *err)
{
	mark_acquired(ses, slot, true);
	if (ping(slot, err) < 0)
		return -1;
	return slot->sandbox == NULL ? 0 : protect_prepare(slot->sandbox, err);
}

struct koda_slot *
koda_slot_acquire(struct koda_session *ses, const struct koda_policy *child, struct koda_error *err)
{
	struct koda_policy *policy;
	struct koda_slot *slot;
	int r;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return NULL;
	/* An embedder that never runs the loop must not accumulate the dead workers of released
	 * slots. */
	if (ses->n_leaving > 0)
		reap_leaving(ses, 0);
	policy = child == NULL ? koda_policy_ref(ses->policy)
			       : koda_policy_compose(ses->policy, child, err);
	if (policy == NULL)
		return NULL;
	session_enter(ses);
	ses->acquiring = true;
	ses->given_up = false;
	if (ses->n_acquired >= ses->max_slots) {
		err_set(err, KODA_INTERNAL, 0, "%u slots are in use, and no more are allowed",
		    ses->max_slots);
		slot = NULL;
	} else if ((slot = find_idle(ses, policy)) == NULL) {
		slot = add_slot(ses, policy, err);
	}
	koda_policy_free(policy);
	r = slot == NULL ? -1 : make_ready(ses, slot, err);
	ses->acquiring = ses->given_up = false;
	if (session_leave(ses))
		return NULL; /* closed from inside a callback */
	if (r < 0 && slot != NULL)
		drop_slot(ses, slot);
	return r < 0 ? NULL : slot;
}

void
koda_slot_release(struct koda_slot *slot)
{
	struct koda_session *ses;

	if (slot == NULL)
		return;
	ses = slot->ses;
	if (*ses->here != 1 || ses->closing || slot->doomed)
		return; /* closing frees it; in a forked child the worker is the parent's */
	/* A worker with calls under way is not reused: no one waits for its answers. Nor is a
	 * sandbox: what commands left in its private places is not for the next user of the
	 * slot. */
	if (slot->state != SLOT_UP || slot->n_calls > 0 || slot->n_searches > 0 ||
	    slot->sandbox != NULL || ses->n_idle >= ses->max_idle) {
		slot->doomed = true;
		ses->n_doomed++;
		session_enter(ses);
		session_leave(ses);
	} else
		mark_acquired(ses, slot, false);
}

int
koda_slot_end(struct koda_slot *slot, struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	int r;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return -1;
	session_enter(ses);
	r = ending_run(slot, true, err);
	session_leave(ses);
	return r;
}

void
koda_slot_enforcement(const struct koda_slot *slot, struct koda_enforcement *ret)
{
	*ret = slot->enforcement;
}

const struct koda_policy *
koda_slot_policy(const struct koda_slot *slot)
{
	return slot->policy;
}

int
koda_slot_pid(const struct koda_slot *slot)
{
	return slot->state == SLOT_STARTING || slot->state == SLOT_UP ? (int)slot->child.pid : -1;
}

/* ---- calls ---- */

int
koda_call(struct koda_slot *slot, const struct koda_op *op, struct koda_result *ret,
    struct koda_error *err)
{
	struct call c;

	memset(&c, 0, offsetof(struct call, err));
	c.err.code = KODA_OK;
	c.err.message[0] = '\0';
	memset(ret, 0, sizeof(*ret));
	ret->fd = -1;
	if (session_check(slot->ses, err) < 0 || slot_submit(slot, op, &c, err) < 0)
		return -1;
	session_enter(slot->ses);
	slot_run(slot, &c);
	if (slot->source.fd >= 0 || slot->n_calls > 0)
		session_rearm(slot->ses, slot);
	session_leave(slot->ses);
	if (c.err.code != KODA_OK) {
		if (err != NULL)
			*err = c.err;
		call_done(&c);
		return -1;
	}
	*ret = c.result;
	c.result = (struct koda_result){ .fd = -1 };
	call_done(&c);
	return 0;
}

int
koda_call_async(struct koda_slot *slot, const struct koda_op *op, koda_done_fn *done, void *data,
    struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	struct call *c;

	if (session_check(ses, err) < 0)
		return -1;
	if (done == NULL)
		return err_set(err, KODA_INVALID, 0, "an asynchronous call without a callback");
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "call");
	c->done = done;
	c->data = data;
	if (slot_submit(slot, op, c, err) < 0) {
		free(c);
		return -1;
	}
	ses->n_async++;
	session_enter(ses);
	/* An idle worker gets the call at once; for a busy one, more calls may come that can be
	 * sent together with it. */
	if (slot->n_calls == 1)
		slot_advance(slot);
	session_rearm(ses, slot);
	session_leave(ses);
	return 0;
}
