/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/slot.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "host/context/entry.h"
#include "host/slot/call_question.h"
#include "host/slot/content.h"
#include "host/slot/outgoing.h"
#include "host/slot/worker.h"
#include "host/slot/wreck.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* ---- submitting ---- */

int
slot_submit(struct koda_slot *slot, const struct koda_op *op, struct call *c,
    struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	bool descriptor = op->kind == KODA_OP_WRITE && (op->fd > 0 || op->len > INLINE_MAX);

	if (slot->n_calls >= SLOT_CALLS_MAX)
		return err_set(err, KODA_INTERNAL, 0,
		    "%d calls are already waiting on this slot, which is the limit: wait until "
		    "one is finished",
		    SLOT_CALLS_MAX);
	if (request_check(op, err) < 0)
		return -1;
	c->kind = op->kind;
	c->preview = request_is_mutation(op->kind) && (op->flags & KODA_DRY_RUN) == 0 &&
	    koda_policy_get(slot->policy)->trust == KODA_TRUST_REQUIRE && !slot->drafted;
	c->fd = -1;
	c->result.fd = -1;
	if (descriptor && (c->fd = content_freeze(op, err)) < 0)
		return -1;
	c->id = c->request_id = slot->next_id;
	c->max = op->kind == KODA_OP_READ ? op->max : 0;
	if (request_pack(op, c->id, descriptor, c->preview, &c->request, err) < 0) {
		call_done(c);
		return -1;
	}
	slot->next_id++;
	c->timeout_ms = op->timeout_ms != 0 ? op->timeout_ms : ses->timeout_ms;
	c->deadline = monotonic_ns() + c->timeout_ms * NS_PER_MS;
	call_queue(slot, c);
	ses->stats.calls++;
	return 0;
}

void
slot_submit_ours(struct koda_slot *slot, struct packed *request, unsigned timeout_ms,
    struct call *c)
{
	c->kind = OP_OURS;
	c->fd = -1;
	c->result.fd = -1;
	c->id = c->request_id = slot->next_id++;
	c->request = *request;
	*request = (struct packed){ 0 };
	c->timeout_ms = timeout_ms;
	c->deadline = monotonic_ns() + timeout_ms * NS_PER_MS;
	call_queue(slot, c);
}

int
slot_pack_ours(struct koda_slot *slot, Koda__Request *req, struct packed *ret,
    struct koda_error *err)
{
	req->id = slot->next_id;
	ret->len = koda__request__get_packed_size(req);
	ret->data = malloc(ret->len);
	if (ret->data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	koda__request__pack(req, ret->data);
	return 0;
}

int
slot_ask_ours(struct koda_slot *slot, struct packed *request, unsigned timeout_ms,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err), void *data,
    struct koda_error *err)
{
	struct call c = { .take = take, .take_data = data };
	int r;

	slot_submit_ours(slot, request, timeout_ms, &c);
	slot_run(slot, &c);
	r = c.err.code == KODA_OK ? 0 : -1;
	if (r < 0 && err != NULL)
		*err = c.err;
	call_done(&c);
	return r;
}

/* ---- the state machine ---- */

/* Is this a shortage on this machine that may be over at the next call? */
static bool
shortage_passes(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOMEM;
}

static void
check_deadlines(struct koda_slot *slot)
{
	uint64_t now = monotonic_ns();
	struct call *c, *next;
	bool stuck = false;

	if (slot->state == SLOT_STARTING && now >= slot->state_deadline)
		stuck = true;
	for (c = slot->head; c != NULL; c = next) {
		next = c->next;
		if (c->state == CALL_ASKING || c->timed_out || now < c->deadline)
			continue;
		if (c->state == CALL_QUEUED) {
			call_fail(c, KODA_TIMEOUT, 0,
			    "the request was not started within %u ms; nothing was changed",
			    c->timeout_ms);
			continue;
		}
		c->timed_out = true;
		/* Finding out what happened gets a deadline of its own, once. */
		c->deadline = now + (SLOT_READY_MS + SLOT_GONE_MS) * NS_PER_MS;
		stuck = stuck || c->state == CALL_SENT;
	}
	if (stuck && (slot->state == SLOT_STARTING || slot->state == SLOT_UP))
		worker_stop(slot);
	/* The successor did not answer in time either. */
	for (c = slot->head; c != NULL; c = next) {
		next = c->next;
		/* CALL_SENT: the worker is being killed; worker_bury() finds out what it did. */
		if (!c->timed_out || now < c->deadline || c->state == CALL_SENT)
			continue;
		if (c->state == CALL_RECOVERING &&
		    (slot->state == SLOT_STARTING || slot->state == SLOT_UP))
			worker_stop(slot);
		wreck_settle(c);
	}
}

/* Each of these functions moves the slot on from one state. It returns true if the state has
 * changed; then there may be more to do. */
static bool
advance_down(struct koda_slot *slot)
{
	struct koda_error err;

	if (slot->n_queued == 0 && slot->n_recovering == 0)
		return false;
	if (monotonic_ns() < slot->not_before) {
		check_deadlines(slot);
		return false;
	}
	if (worker_start(slot, &err) == 0)
		return true;
	if (shortage_passes(err.errnum)) {
		wreck_end_all(slot, &err);
		return false;
	}
	worker_give_up(slot, &err);
	return true;
}

static bool
advance_up(struct koda_slot *slot)
{
	if ((slot->n_queued > 0 || slot->n_recovering > 0 || frame_pending(&slot->fs) > 0) &&
	    outgoing_send(slot) < 0)
		worker_stop(slot);
	return slot->state != SLOT_UP;
}

static bool
advance_dying(struct koda_slot *slot)
{
	/* Remove the socket from the epoll set before it is closed: if a forked child of the
	 * embedder holds it open, it would stay in the set and point to a slot that is freed. */
	loop_unwatch(&slot->ses->loop, &slot->source);
	if (child_gone(&slot->child, 0))
		worker_bury(slot, true);
	else if (monotonic_ns() >= slot->state_deadline)
		worker_bury(slot, false);
	else
		return false;
	return true;
}

static bool
advance_failed(struct koda_slot *slot)
{
	wreck_end_all(slot, &slot->failure);
	return false;
}

/* What the slot does in each state, and what it waits for there. host/slot/state.c lists which
 * states may follow. */
static const struct {
	bool (*advance)(struct koda_slot *slot); /* NULL: only the worker moves it on */
	enum { FOR_NOTHING, FOR_SOCKET, FOR_END } waits;
	bool limited; /* the state lasts until state_deadline at most */
} states[] = {
	[SLOT_DOWN] = { advance_down, FOR_NOTHING, false },
	[SLOT_STARTING] = { NULL, FOR_SOCKET, true },
	[SLOT_UP] = { advance_up, FOR_SOCKET, false },
	[SLOT_DYING] = { advance_dying, FOR_END, true },
	[SLOT_FAILED] = { advance_failed, FOR_NOTHING, false },
};

void
slot_advance(struct koda_slot *slot)
{
	while (states[slot->state].advance != NULL && states[slot->state].advance(slot))
		;
}

void
slot_tick(struct koda_slot *slot)
{
	check_deadlines(slot);
	slot_advance(slot);
}

void
slot_renew(struct koda_slot *slot)
{
	if (slot->state == SLOT_UP)
		worker_stop(slot);
}

/* The earliest deadline of a call; UINT64_MAX: there is none. */
static uint64_t
first_deadline(const struct koda_slot *slot)
{
	uint64_t t = UINT64_MAX;

	for (const struct call *c = slot->head; c != NULL; c = c->next)
		if (c->state != CALL_ASKING && c->deadline < t)
			t = c->deadline;
	return t;
}

/* What the slot waits for: a descriptor (or -1), events, and a time (ns; UINT64_MAX: none). */
static void
slot_wait_for(const struct koda_slot *slot, int *ret_fd, uint32_t *ret_events, uint64_t *ret_time)
{
	uint64_t t = first_deadline(slot);

	*ret_fd = -1;
	*ret_events = 0;
	switch (states[slot->state].waits) {
	case FOR_SOCKET:
		*ret_fd = slot->fs.fd;
		*ret_events = EPOLLIN;
		if (frame_pending(&slot->fs) > 0 ||
		    (slot->state == SLOT_UP && slot->n_queued > 0 && slot->n_recovering == 0))
			*ret_events |= EPOLLOUT;
		break;
	case FOR_END:
		*ret_fd = slot->child.pidfd;
		*ret_events = EPOLLIN;
		break;
	case FOR_NOTHING:
		break;
	}
	if (states[slot->state].limited && slot->state_deadline < t)
		t = slot->state_deadline;
	if (slot->state == SLOT_DOWN && slot->n_queued + slot->n_recovering > 0 &&
	    slot->not_before < t)
		t = slot->not_before;
	if (slot->n_unasked > 0)
		t = 0;
	*ret_time = t;
}

uint64_t
slot_watch(struct koda_slot *slot)
{
	uint32_t events;
	uint64_t at;
	int fd;

	slot_wait_for(slot, &fd, &events, &at);
	loop_watch(&slot->ses->loop, &slot->source, fd, events);
	return at;
}

void
slot_rearm(struct koda_slot *slot)
{
	loop_wake_at(&slot->ses->loop, slot_watch(slot));
}

void
slot_run(struct koda_slot *slot, struct call *c)
{
	/* The usual case: the request is sent at once, and the first thing to arrive is its
	 * reply. */
	slot_advance(slot);
	while (c->state != CALL_DONE) {
		uint64_t until, now;
		struct pollfd pfd;
		uint32_t events;
		int fd, ms;

		if (!session_waits(slot->ses) && slot->state == SLOT_UP &&
		    frame_pending(&slot->fs) == 0 && slot->n_queued == 0 &&
		    c->timeout_ms >= 2 * WORKER_READ_MS) {
			worker_read(slot, true);
			slot_advance(slot);
			slot_ask(slot);
			if (c->state == CALL_DONE)
				return;
			slot_tick(slot);
			continue;
		}
		slot_wait_for(slot, &fd, &events, &until);
		now = monotonic_ns();
		ms = until == UINT64_MAX        ? -1
		    : until <= now              ? 0
		    : until - now > 60000000000 ? 60000
						: (int)((until - now) / NS_PER_MS + 1);
		pfd = (struct pollfd){ .fd = fd,
			.events = (short)((events & EPOLLIN ? POLLIN : 0) |
			    (events & EPOLLOUT ? POLLOUT : 0)) };
		if (session_poll(slot->ses, &pfd, 1, ms) < 0 && slot->ses->given_up) {
			slot->gave_up = true;
			call_fail(c, KODA_TIMEOUT, 0, "the caller gave up waiting for the slot");
			return;
		}
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR))
			worker_read(slot, false);
		slot_tick(slot);
		slot_ask(slot);
	}
}

/* ---- approval ---- */

static void
slot_answer(struct call *c, bool yes)
{
	struct koda_slot *slot = c->slot;
	struct koda_error err;
	struct packed act;

	if (!yes) {
		err_set(&err, KODA_NOT_APPROVED, 0, "%s", c->err.message);
		err_about(&err, c->result.path, "trust");
		call_finish(c, &err);
		return;
	}
	c->id = c->request_id = slot->next_id++;
	if (request_again(&c->request, REQUEST_ACT, c->id, &c->result, &act, &err) < 0) {
		call_finish(c, &err);
		return;
	}
	packed_done(&c->request);
	c->request = act;
	c->preview = false;
	koda_result_done(&c->result);
	c->deadline = monotonic_ns() + c->timeout_ms * NS_PER_MS;
	call_queue_again(c);
}

static bool
answer_call(void *about, enum koda_scope scope, bool late)
{
	struct call *c = about;
	struct koda_slot *slot = c->slot;
	struct koda_session *ses = slot->ses;

	if (*ses->here != 1)
		return false; /* the parent's question */
	slot_answer(c, scope != KODA_SCOPE_NO);
	if (!late)
		return true; /* the loop goes on with the slot */
	session_enter(ses);
	slot_advance(slot);
	slot_rearm(slot);
	session_leave(ses);
	return true;
}

static struct asked **
postpone_answer(void *about)
{
	return session_postpones(((struct call *)about)->slot->ses);
}

static const struct asked_ops call_ops = { call_question_refuse, answer_call, postpone_answer };

void
slot_ask(struct koda_slot *slot)
{
	while (slot->n_unasked > 0) {
		struct call *c = slot->head;

		while (!c->unasked)
			c = c->next;
		c->unasked = false;
		slot->n_unasked--;
		call_question_ask(c, &call_ops);
	}
}

/* ---- the slot itself ---- */

static void
on_ready_source(struct source *source)
{
	worker_read((struct koda_slot *)source, false);
}

struct koda_slot *
slot_new(struct koda_session *ses, struct koda_policy *policy, const struct slot_client *client,
    struct koda_error *err)
{
	struct koda_slot *slot = calloc(1, sizeof(*slot));

	if (slot == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "slot");
		return NULL;
	}
	slot->ses = ses;
	slot->client = client;
	slot->policy = koda_policy_ref(policy);
	slot->state = SLOT_DOWN;
	slot->child.pidfd = -1;
	slot->fs.fd = -1;
	slot->record_fd = -1;
	slot->source = (struct source){ .ready = on_ready_source, .fd = -1 };
	slot->next_id = 1;
	arena_init(&slot->arena);
	return slot;
}

static void
closed_before(struct koda_error *ret)
{
	err_set(ret, KODA_WORKER, 0,
	    "the slot was closed before this call was answered: its outcome is unknown");
}

void
slot_give_up_calls(struct koda_slot *slot)
{
	struct koda_error err;

	closed_before(&err);
	slot->gave_up = true;
	for (struct call *c = slot->head, *next; c != NULL; c = next) {
		next = c->next;
		if (c->take == NULL)
			call_finish(c, &err);
	}
}

void
slot_close(struct koda_slot *slot)
{
	struct koda_error err;

	closed_before(&err);
	while (slot->head != NULL)
		call_finish(slot->head, &err);
	if (slot->state == SLOT_STARTING || slot->state == SLOT_UP)
		child_kill(&slot->child);
	/* In a sandbox the worker is stage2's child: it is killed with the sandbox, and not the
	 * host's to reap. Waiting until the kernel has removed its inotify watches would take
	 * longer than everything else in a short session. */
	if (slot->child.pidfd >= 0 && slot->commands != NULL)
		close_at(&slot->child.pidfd);
	else if (slot->child.pidfd >= 0)
		leaving_adopt(&slot->ses->leaving, &slot->child);
}

void
slot_free(struct koda_slot *slot)
{
	loop_unwatch(&slot->ses->loop, &slot->source);
	close_at(&slot->record_fd);
	frame_done(&slot->fs);
	arena_done(&slot->arena);
	koda_policy_free(slot->policy);
	free(slot);
}
