#include "host/slot/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/protect/ending.h"
#include "host/sandbox/sandbox.h"
#include "host/search/search.h"
#include "host/session/finished.h"
#include "host/session/session.h"
#include "host/slot/seal.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* How long a blocking receive may keep the slot from checking deadlines. */
#define RECEIVE_TICK_S 1
/* Holds a deep queue of small writes, which the worker reads in a few calls. */
#define SEND_BUFFER (512 << 10)

static uint64_t
in_ms(uint64_t ms)
{
	return monotonic_ns() + ms * NS_PER_MS;
}

/* ---- the line of calls ---- */

static void
line_append(struct koda_slot *slot, struct call *c)
{
	c->next = NULL;
	c->prev = slot->tail;
	if (slot->tail != NULL)
		slot->tail->next = c;
	else
		slot->head = c;
	slot->tail = c;
	slot->n_calls++;
}

static void
line_remove(struct koda_slot *slot, struct call *c)
{
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		slot->head = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	else
		slot->tail = c->prev;
	c->prev = c->next = NULL;
	slot->n_calls--;
}

static void
set_state(struct call *c, enum call_state state)
{
	struct koda_slot *slot = c->slot;

	slot->n_queued -= c->state == CALL_QUEUED;
	slot->n_recovering -= c->state == CALL_RECOVER || c->state == CALL_RECOVERING;
	c->state = state;
	slot->n_queued += c->state == CALL_QUEUED;
	slot->n_recovering += c->state == CALL_RECOVER || c->state == CALL_RECOVERING;
}

static void
forget_wreck(struct call *c)
{
	packed_done(&c->prepared);
	c->committed = c->has_verdict = c->has_digest_now = false;
	c->recoveries = c->prepares = 0;
}

static bool
changes_something(const struct call *c)
{
	return request_is_mutation(c->kind) && !c->preview;
}

void
call_done(struct call *c)
{
	packed_done(&c->request);
	packed_done(&c->page);
	packed_done(&c->prepared);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	approve_done(c);
	koda_result_done(&c->result);
}

/* The only place where a call ends. err NULL: the call ends with its result. */
static void
finish(struct call *c, const struct koda_error *err)
{
	struct koda_slot *slot = c->slot;

	slot->n_unasked -= c->unasked;
	c->unasked = false;
	approve_done(c);
	set_state(c, CALL_DONE);
	line_remove(slot, c);
	if (err != NULL) {
		c->err = *err;
		koda_result_done(&c->result);
		if (err->code == KODA_POLICY_DENIED || err->code == KODA_NOT_APPROVED)
			slot->ses->stats.refusals++;
	}
	finished_add(slot->ses, c);
}

static void __attribute__((format(printf, 4, 5)))
fail(struct call *c, enum koda_code code, int errnum, const char *fmt, ...)
{
	struct koda_error err;
	char text[KODA_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&err, code, errnum, "%s", text);
	finish(c, &err);
}

static void unknown(struct call *c);

static void
fail_all(struct koda_slot *slot, const struct koda_error *err)
{
	while (slot->head != NULL) {
		struct call *c = slot->head;

		if (changes_something(c) && c->state != CALL_QUEUED && c->prepared.len > 0)
			unknown(c);
		else
			finish(c, err);
	}
}

/* ---- submitting ---- */

/* Content that does not fit in a frame goes into a sealed memfd, which no process can change.
 * Returns the descriptor, which the caller owns, or -1 with *err set. */
static int
seal_content(const struct koda_op *op, struct koda_error *err)
{
	const int want = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	const uint8_t *p = op->data;
	cleanup_close int fd = -1;
	size_t left = op->len;

	if (op->fd > 0) {
		int seals = fcntl(op->fd, F_GET_SEALS);

		if (seals < 0 || (seals & want) != want) {
			err_set(err, KODA_INVALID, 0,
			    "the content's descriptor is not a memfd sealed against writing, growing "
			    "and shrinking");
			return -1;
		}
		fd = fcntl(op->fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			err_set(err, KODA_INTERNAL, errno, "duplicate the content's descriptor");
		return take_fd(&fd);
	}
	fd = memfd_create("koda-content", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		err_set(err, KODA_INTERNAL, errno, "memfd_create");
		return -1;
	}
	while (left > 0) {
		ssize_t n = write(fd, p, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_set(err, KODA_INTERNAL, errno, "hold the content");
			return -1;
		}
		p += n;
		left -= (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, want | F_SEAL_SEAL) < 0) {
		err_set(err, KODA_INTERNAL, errno, "seal the content");
		return -1;
	}
	return take_fd(&fd);
}

int
slot_submit(struct koda_slot *slot, const struct koda_op *op, struct call *c,
    struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	bool descriptor = op->kind == KODA_OP_WRITE && (op->fd > 0 || op->len > INLINE_MAX);

	if (slot->n_calls >= SLOT_CALLS_MAX)
		return err_set(err, KODA_INTERNAL, 0, "%d calls are outstanding on this slot",
		    SLOT_CALLS_MAX);
	if (request_check(op, err) < 0)
		return -1;
	c->kind = op->kind;
	c->preview = request_is_mutation(op->kind) && (op->flags & KODA_DRY_RUN) == 0 &&
	    koda_policy_get(slot->policy)->trust == KODA_TRUST_REQUIRE;
	c->fd = -1;
	c->result.fd = -1;
	if (descriptor && (c->fd = seal_content(op, err)) < 0)
		return -1;
	c->id = c->request_id = slot->next_id;
	c->max = op->kind == KODA_OP_READ ? op->max : 0;
	if (request_pack(op, c->id, descriptor, c->preview, &c->request, err) < 0) {
		call_done(c);
		return -1;
	}
	slot->next_id++;
	c->timeout_ms = op->timeout_ms != 0 ? op->timeout_ms : ses->timeout_ms;
	c->deadline = in_ms(c->timeout_ms);
	c->slot = slot;
	c->state = CALL_DONE;
	set_state(c, CALL_QUEUED);
	line_append(slot, c);
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
	c->deadline = in_ms(timeout_ms);
	c->slot = slot;
	c->state = CALL_DONE;
	set_state(c, CALL_QUEUED);
	line_append(slot, c);
}

/* ---- the worker's life ---- */

static void
stop_worker(struct koda_slot *slot)
{
	child_kill(&slot->child);
	slot->state = SLOT_DYING;
	slot->state_deadline = in_ms(SLOT_GONE_MS);
}

static void
give_up(struct koda_slot *slot, const struct koda_error *why)
{
	slot->failure = *why;
	if (slot->state == SLOT_STARTING || slot->state == SLOT_UP) {
		/* The worker cannot have a mutation to recover: it has not been sent one, or it is
		 * not trusted to have acted. No successor will be asked what it did. */
		child_kill(&slot->child);
		session_unwatch(slot->ses, &slot->source);
		frame_done(&slot->fs);
		session_adopt(slot->ses, &slot->child);
	}
	slot->state = SLOT_FAILED;
	fail_all(slot, &slot->failure);
}

static int
spawn_worker(struct koda_slot *slot, int fd, struct koda_error *err)
{
	if (slot->sandbox != NULL) {
		if (sandbox_start_worker(slot->sandbox, SANDBOX_FILES, fd, &slot->child, err) == 0)
			return 0;
		if (err->code != KODA_UNSUPPORTED || !session_degrade(slot->ses, err))
			return -1;
		sandbox_free(slot->sandbox);
		slot->sandbox = NULL;
	}
	return spawn_helper(slot->ses->worker_path, fd, &slot->child, err);
}

static int
start_worker(struct koda_slot *slot, struct koda_error *err)
{
	struct timeval tick = { .tv_sec = RECEIVE_TICK_S };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, KODA_INTERNAL, errno, "socketpair");
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
	/* As far as the kernel allows: a smaller buffer only means more wake-ups. */
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){ SEND_BUFFER }, sizeof(int));
	if (spawn_worker(slot, pair[1], err) < 0) {
		close(pair[0]);
		close(pair[1]);
		return -1;
	}
	close(pair[1]);
	frame_init(&slot->fs, pair[0]);
	slot->record_fd = -1;
	slot->record_asked = false;
	/* frame_init() has dropped everything that the last worker sent. */
	slot->broken = slot->answered = false;
	slot->state = SLOT_STARTING;
	slot->state_deadline = in_ms(SLOT_READY_MS);
	slot->ses->stats.spawns++;
	slot->ses->stats.respawns += slot->ever_up;
	session_event(slot->ses, KODA_EVENT_SPAWN, "worker %d started", (int)slot->child.pid);
	randombytes_buf(slot->token, sizeof(slot->token));
	slot->seal_id = slot->next_id++;
	if (seal_queue(slot, &slot->fs, slot->seal_id, slot->token, true, err) < 0)
		return -1;
	frame_flush(&slot->fs, false, NULL); /* an error shows as the worker's death */
	return 0;
}

void
slot_renew(struct koda_slot *slot)
{
	if (slot->state == SLOT_UP)
		stop_worker(slot);
}

/* A shortage on this machine that may be over at the next call. */
static bool
passes(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOMEM;
}

static uint64_t
backoff_ns(unsigned barren)
{
	return barren < 2 ? 0 : (SLOT_BACKOFF_MS * NS_PER_MS) << (2 * (barren - 2));
}

/* Ends a mutation whose verdict cannot be found out any more. */
static void
unknown(struct call *c)
{
	char now[2 * KODA_DIGEST_BYTES + 1] = "unknown",
					 after[2 * KODA_DIGEST_BYTES + 1] = "unknown";
	struct koda_result would = { .fd = -1 };
	char shown[384]; /* short enough to leave room for both digests in the message */
	struct koda_error err;

	if (c->has_digest_now)
		sodium_bin2hex(now, sizeof(now), c->digest_now, KODA_DIGEST_BYTES);
	if (c->prepared.len > 0 && reply_of_prepared(&c->prepared, c->kind, &would, NULL) == 0 &&
	    would.has_digest)
		sodium_bin2hex(after, sizeof(after), would.digest, KODA_DIGEST_BYTES);
	if (would.path == NULL)
		snprintf(shown, sizeof(shown), "the file");
	else
		bytes_show(shown, sizeof(shown), would.path, strlen(would.path));
	err_set(&err, KODA_UNKNOWN, 0,
	    "the worker died, and by what is at '%s' now nobody can tell whether it happened (digest it "
	    "would have: %s, digest now: %s); read it and decide",
	    shown, after, now);
	if (would.path != NULL)
		err_about(&err, would.path, NULL);
	koda_result_done(&would);
	finish(c, &err);
}

/* The call certainly did not happen: queue it again, unless it killed too many workers or is out of
 * time. */
static void
did_not_happen(struct call *c)
{
	forget_wreck(c);
	if (c->timed_out) {
		fail(c, KODA_TIMEOUT, 0, "not done within %u ms, and not done at all",
		    c->timeout_ms);
	} else if (c->deaths >= CALL_DEATHS_MAX) {
		fail(c, KODA_WORKER, 0,
		    "the worker died %u times at this request; it did not happen", c->deaths);
	} else {
		/* It keeps its place in the queue: calls are carried out in the order in which they
		 * were made. */
		set_state(c, CALL_QUEUED);
	}
}

static void
on_recovered(struct call *c)
{
	struct koda_error err;

	c->slot->ses->stats.recovered++;
	switch ((int)c->verdict.happened) {
	case KODA__HAPPENED__HAPPENED:
		if (reply_of_prepared(&c->prepared, c->kind, &c->result, &err) < 0) {
			finish(c, &err);
			return;
		}
		c->result.recovered = true;
		finish(c, NULL);
		break;
	case KODA__HAPPENED__DID_NOT_HAPPEN:
		did_not_happen(c);
		break;
	default:
		unknown(c);
	}
}

/* Nothing more can be found out: end the call according to what is known. */
static void
settle(struct call *c)
{
	if (c->has_verdict)
		on_recovered(c);
	else if (c->prepared.len > 0)
		unknown(c);
	else
		did_not_happen(c);
}

/* A worker that breaks the protocol may have acted without reporting it, and one that hangs in the
 * kernel may still act: the mutations it was working on are neither repeated nor reported as not
 * done. */
static void
forsake(struct call *c, const char *why)
{
	fail(c, KODA_UNKNOWN, 0,
	    "%s while this was under way: nobody can tell whether it happened; look and decide",
	    why);
}

/* Called when the worker is gone (or hangs in the kernel) and its socket has been read to the
 * end. */
static void
sort_calls(struct koda_slot *slot, bool gone)
{
	const char *odd = slot->broken ? "the worker broke the protocol"
	    : gone                     ? NULL
				       : "the worker was killed but hangs in the kernel";
	struct call *c, *next;
	bool found_culprit = false;

	for (c = slot->head; c != NULL; c = next) {
		next = c->next;
		if (c->state == CALL_SENT) {
			/* The worker works in order: it died at the first call without an
			 * answer. */
			c->deaths += !found_culprit;
			found_culprit = true;
			if (changes_something(c) && odd != NULL) {
				forsake(c, odd);
			} else if (changes_something(c)) {
				set_state(c, CALL_RECOVER);
			} else {
				/* Discard everything that a worker which broke the protocol sent,
				 * earlier pages too. */
				if (slot->broken) {
					packed_done(&c->page);
					koda_result_done(&c->result);
					c->id = c->request_id;
				}
				did_not_happen(c);
			}
		} else if (c->state == CALL_RECOVERING) {
			/* Here too the worker died at the first one without an answer. The
			 * others were not begun; giving them up would leave their temporary
			 * files behind. */
			c->recoveries += !found_culprit;
			found_culprit = true;
			set_state(c, CALL_RECOVER);
			if (c->recoveries >= CALL_RECOVER_MAX)
				settle(c);
		}
	}
}

static void receive_frames(struct koda_slot *slot);
static void read_record(struct koda_slot *slot);

static void
bury(struct koda_slot *slot, bool gone)
{
	struct koda_error err;
	char how[64];

	for (int i = 0;
	     !slot->broken && i < BURY_READS_MAX && frame_fill(&slot->fs, false, NULL) > 0; i++)
		receive_frames(slot);
	read_record(slot);
	session_unwatch(slot->ses, &slot->source);
	frame_done(&slot->fs);
	slot->barren = slot->answered ? 0 : slot->barren + 1;
	if (slot->broken)
		session_event(slot->ses, KODA_EVENT_DEATH,
		    "worker %d broke the protocol and was killed: %s", (int)slot->child.pid,
		    slot->failure.message);
	else
		session_event(slot->ses, KODA_EVENT_DEATH, "worker %d %s", (int)slot->child.pid,
		    gone ? child_end(&slot->child, how, sizeof(how)) : "hangs in the kernel");
	if (!gone)
		session_adopt(slot->ses, &slot->child);
	slot->state = SLOT_DOWN;
	slot->not_before = monotonic_ns() + backoff_ns(slot->barren);
	sort_calls(slot, gone);
	if (slot->barren >= SLOT_BARREN_MAX) {
		err_set(&err, KODA_WORKER, 0,
		    "the worker died %u times in a row without an answer (%s); this slot is given up",
		    slot->barren,
		    slot->broken ? slot->failure.message
			: gone   ? child_end(&slot->child, how, sizeof(how))
				 : "hangs in the kernel");
		give_up(slot, &err);
	}
}

/* ---- replies ---- */

static void
protocol_error(struct koda_slot *slot, const struct koda_error *err)
{
	slot->broken = true;
	slot->failure = *err;
	stop_worker(slot);
}

static int
on_ready(struct koda_slot *slot, const Koda__Reply *reply, struct koda_error *err)
{
	struct koda_error why;
	int r = seal_check(slot, reply, &slot->enforcement, &why);

	if (r == 0) {
		slot->state = SLOT_UP;
		slot->ever_up = true;
	} else if (r > 0) {
		give_up(slot, &why);
	} else {
		*err = why;
	}
	return r < 0 ? -1 : 0;
}

static int
keep_verdict(struct call *c, const Koda__Verdict *v, struct koda_error *err)
{
	if (v->has_digest_now && v->digest_now.len != KODA_DIGEST_BYTES)
		return err_set(err, KODA_PROTOCOL, 0, "a digest of another length");
	if (c->has_verdict && c->verdict.happened != v->happened)
		return err_set(err, KODA_PROTOCOL, 0, "a verdict that changes");
	if (v->happened == KODA__HAPPENED__HAPPENED && c->prepared.len == 0)
		return err_set(err, KODA_PROTOCOL, 0, "what was not prepared has not happened");
	koda__verdict__init(&c->verdict);
	c->verdict.happened = v->happened;
	c->has_verdict = true;
	c->has_digest_now = v->has_digest_now;
	if (v->has_digest_now)
		memcpy(c->digest_now, v->digest_now.data, KODA_DIGEST_BYTES);
	return 0;
}

static int
on_progress(struct call *c, const Koda__Reply *reply, const uint8_t *frame, size_t len,
    struct koda_error *err)
{
	if (reply->result_case == KODA__REPLY__RESULT_VERDICT) {
		/* The worker did not do it after all and cleans up next: no trace will be left to
		 * ask about. */
		if (c->state == CALL_SENT && c->prepared.len > 0 &&
		    reply->verdict->happened == KODA__HAPPENED__DID_NOT_HAPPEN) {
			packed_done(&c->prepared);
			c->committed = false;
			return 0;
		}
		if (c->state != CALL_RECOVERING)
			return err_set(err, KODA_PROTOCOL, 0, "a Verdict that nobody asked for");
		return keep_verdict(c, reply->verdict, err);
	}
	if (c->state != CALL_SENT || !changes_something(c))
		return err_set(err, KODA_PROTOCOL, 0, "progress of what cannot have any");
	if (reply->result_case == KODA__REPLY__RESULT_COMMITTED) {
		if (c->kind != KODA_OP_REMOVE || c->prepared.len == 0 || c->committed)
			return err_set(err, KODA_PROTOCOL, 0, "Committed out of order");
		c->committed = true;
		return 0;
	}
	/* Sent again when another process changed the place first and the worker started over; the
	 * last one counts. */
	if (c->committed || ++c->prepares > PREPARED_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "Prepared too often");
	if (reply_check_prepared(c->kind, reply->prepared, err) < 0)
		return -1;
	packed_done(&c->prepared);
	c->prepared.data = malloc(len);
	if (c->prepared.data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "Prepared");
	memcpy(c->prepared.data, frame, len);
	c->prepared.len = len;
	return 0;
}

/* Queues the request for the rest of a listing, or of content that comes in pieces. */
static int
next_page(struct call *c, struct koda_error *err)
{
	struct koda_slot *slot = c->slot;

	packed_done(&c->page);
	if (monotonic_ns() >= c->deadline)
		return err_set(err, KODA_TIMEOUT, 0, "not done within %u ms", c->timeout_ms);
	c->id = slot->next_id++;
	if (request_again(&c->request, REQUEST_NEXT_PAGE, c->id, &c->result, &c->page, err) < 0)
		return -1;
	line_remove(slot, c);
	set_state(c, CALL_QUEUED);
	line_append(slot, c);
	return 0;
}

/* The approval callback does not run here: it may call the library, and this runs in the middle of
 * handling the worker's reply. */
static void
set_asking(struct call *c)
{
	set_state(c, CALL_ASKING);
	c->unasked = true;
	c->slot->n_unasked++;
}

static int
on_final(struct call *c, const Koda__Reply *reply, int fd_, struct koda_error *err)
{
	struct koda_slot *slot = c->slot;
	cleanup_close int fd = fd_;
	struct koda_error why = { 0 };
	int r;

	slot->answered = true;
	if (c->state == CALL_RECOVERING) {
		if (reply->result_case == KODA__REPLY__RESULT_ERROR) {
			/* The successor is not allowed to look there, or cannot (any more). */
			settle(c);
			return 0;
		}
		if (reply->result_case != KODA__REPLY__RESULT_RECOVERED)
			return err_set(err, KODA_PROTOCOL, 0,
			    "a reply of another kind than Recover's");
		if (keep_verdict(c, reply->recovered, err) < 0)
			return -1;
		on_recovered(c);
		return 0;
	}
	if (c->take != NULL && reply->result_case != KODA__REPLY__RESULT_ERROR) {
		if (c->take(c->take_data, reply, err) < 0)
			return -1;
		finish(c, NULL);
		return 0;
	}
	r = reply_take(c->take != NULL ? KODA_OP_PING : c->kind, reply, take_fd(&fd), &slot->arena,
	    &c->result, &why);
	if (r >= 0 && c->max > 0 && c->result.len > c->max)
		r = err_set(&why, KODA_PROTOCOL, 0, "more content than was asked for");
	if (r >= 0 && c->preview)
		r = reply_check_preview(c->kind, &c->result, &why);
	if (r < 0 && why.code == KODA_PROTOCOL) {
		*err = why;
		return -1;
	}
	if (r == 1 && c->max > 0 && c->result.len == c->max)
		r = 0; /* max 0 in the next request would mean everything */
	if (r == 1 && (r = next_page(c, &why)) == 0)
		return 0;
	if (r < 0)
		finish(c, &why);
	else if (c->preview)
		set_asking(c);
	else
		finish(c, NULL);
	return 0;
}

static int
on_reply(struct koda_slot *slot, const uint8_t *frame, size_t len, struct koda_error *err)
{
	cleanup_close int fd = -1;
	Koda__Reply *reply;
	struct call *c;

	arena_reset(&slot->arena);
	reply =
	    (Koda__Reply *)message_unpack(&koda__reply__descriptor, frame, len, &slot->arena, err);
	if (reply == NULL)
		return -1;
	if (reply->result_case == KODA__REPLY__RESULT_READ && reply->read->has_descriptor &&
	    reply->read->descriptor)
		fd = frame_take_fd(&slot->fs);
	if (slot->state == SLOT_DYING && reply->id == slot->seal_id)
		return 0;
	if (slot->state == SLOT_STARTING) {
		if (reply->id != slot->seal_id)
			return err_set(err, KODA_PROTOCOL, 0, "a reply before Ready");
		return on_ready(slot, reply, err);
	}
	if (slot->record_fd >= 0 && reply->id == slot->record_id) {
		if (reply->result_case == KODA__REPLY__RESULT_DONE)
			return 0;
		return err_set(err, KODA_PROTOCOL, 0, "no answer to Record");
	}
	for (c = slot->head; c != NULL; c = c->next)
		if ((c->state == CALL_SENT && c->id == reply->id) ||
		    (c->state == CALL_RECOVERING && c->recover_id == reply->id))
			break;
	/* Calls that were given up, also while the worker was being killed, may still be
	 * answered. */
	if (c == NULL && (slot->state == SLOT_DYING || slot->gave_up) && reply->id > 0 &&
	    reply->id < slot->next_id)
		return 0;
	if (c == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "a reply to nothing (id %llu)",
		    (unsigned long long)reply->id);
	switch ((int)reply->result_case) {
	case KODA__REPLY__RESULT__NOT_SET:
		return err_set(err, KODA_PROTOCOL, 0, "an empty reply");
	case KODA__REPLY__RESULT_PREPARED:
	case KODA__REPLY__RESULT_COMMITTED:
	case KODA__REPLY__RESULT_VERDICT:
		return on_progress(c, reply, frame, len, err);
	default:
		return on_final(c, reply, take_fd(&fd), err);
	}
}

static int
left_behind(struct call *c, const Koda__Reply *reply, const uint8_t *frame, size_t len,
    struct koda_error *err)
{
	if (!request_is_mutation(c->kind))
		return err_set(err, KODA_PROTOCOL, 0, "a record of what changes nothing");
	switch ((int)reply->result_case) {
	case KODA__REPLY__RESULT_PREPARED:
	case KODA__REPLY__RESULT_COMMITTED:
	case KODA__REPLY__RESULT_VERDICT:
		return on_progress(c, reply, frame, len, err);
	case KODA__REPLY__RESULT_OUTCOME:
	case KODA__REPLY__RESULT_ERROR:
		return on_final(c, reply, -1, err); /* the final reply had not been sent yet */
	default:
		return err_set(err, KODA_PROTOCOL, 0, "in the record what does not belong there");
	}
}

/* What the dead worker left in the record, as frames: the progress of its last changes and the
 * replies it had not sent yet. No process can change it any more; it is as untrusted as what came
 * through the socket. */
static int
take_record(struct koda_slot *slot, const uint8_t *p, size_t left, struct koda_error *err)
{
	while (left > 4) {
		size_t len = frame_get_length(p);
		struct call *c = slot->head;
		Koda__Reply *reply;

		if (len == 0 || len > left - 4)
			break;
		arena_reset(&slot->arena);
		reply = (Koda__Reply *)message_unpack(&koda__reply__descriptor, p + 4, len,
		    &slot->arena, err);
		if (reply == NULL)
			return -1;
		while (c != NULL && !(c->state == CALL_SENT && c->id == reply->id))
			c = c->next;
		/* NULL: the call has been answered. */
		if (c != NULL && left_behind(c, reply, p + 4, len, err) < 0)
			return -1;
		p += 4 + len;
		left -= 4 + len;
	}
	return left == 0 ? 0 : err_set(err, KODA_PROTOCOL, 0, "a record that breaks off");
}

static void
read_record(struct koda_slot *slot)
{
	cleanup_close int fd = slot->record_fd;
	cleanup_free uint8_t *frames = NULL;
	struct koda_error err;
	uint64_t used = 0;

	slot->record_fd = -1;
	if (fd < 0 || slot->broken)
		return;
	if (pread(fd, &used, sizeof(used), offsetof(struct record, used)) != sizeof(used) ||
	    used > sizeof(((struct record *)NULL)->frames))
		err_set(&err, KODA_PROTOCOL, 0, "a record of no size");
	else if (used == 0)
		return;
	else if ((frames = malloc(used)) == NULL ||
	    pread(fd, frames, used, offsetof(struct record, frames)) != (ssize_t)used)
		err_set(&err, KODA_INTERNAL, ENOMEM, "read what the worker left");
	else if (take_record(slot, frames, used, &err) == 0)
		return;
	slot->broken = true;
	slot->failure = err;
}

static void
receive_frames(struct koda_slot *slot)
{
	struct koda_error err = { 0 };
	const uint8_t *frame;
	size_t len;
	int r = 0;

	while (!slot->broken && slot->state != SLOT_FAILED && slot->fs.fd >= 0 &&
	    (r = frame_next(&slot->fs, &frame, &len, &err)) > 0)
		if ((r = on_reply(slot, frame, len, &err)) < 0)
			break;
	if (r == 0 && slot->fs.fd >= 0 && slot->fs.in_start == slot->fs.in_end &&
	    frame_fds_waiting(&slot->fs) > 0)
		r = err_set(&err, KODA_PROTOCOL, 0, "a descriptor that belongs to nothing");
	if (r < 0 && slot->state != SLOT_FAILED)
		protocol_error(slot, &err);
}

void
slot_read(struct koda_slot *slot, bool block)
{
	struct koda_error err;
	int r;

	if (slot->state != SLOT_STARTING && slot->state != SLOT_UP)
		return;
	r = frame_fill(&slot->fs, block, &err);
	if (r > 0)
		receive_frames(slot);
	else if (r < 0 && err.code == KODA_PROTOCOL && !slot->fs.eof)
		protocol_error(slot, &err);
	else if (r < 0)
		stop_worker(slot);
}

/* ---- sending ---- */

/* Returns 1 if sent, 0 if it has to wait for room, -1 with *err set if it cannot be sent. */
static int
send_packed(struct koda_slot *slot, const struct packed *p, int fd, struct koda_error *err)
{
	struct pollfd pfd = { .fd = slot->fs.fd, .events = POLLOUT };
	uint8_t *to;

	/* Given room, a small frame and its descriptor are sent in one piece; so wait for room
	 * first. */
	if (fd >= 0 && (frame_flush(&slot->fs, false, err) <= 0 || poll(&pfd, 1, 0) <= 0))
		return 0;
	to = frame_reserve(&slot->fs, p->len, err);
	if (to == NULL)
		return -1;
	memcpy(to, p->data, p->len);
	if (fd >= 0)
		return frame_flush_with_fd(&slot->fs, p->len + 4, fd, RECEIVE_TICK_S * 1000, err) <
			0
		    ? -1
		    : 1;
	return 1;
}

/* Gives the worker a record before its first mutation. If the record cannot be made, the worker
 * reports the same through the socket. */
static int
send_record(struct koda_slot *slot, struct koda_error *err)
{
	cleanup_close int fd = memfd_create("koda-record", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Record record = KODA__RECORD__INIT;
	uint8_t buf[32];
	struct packed p = { buf, 0 };
	int r;

	slot->record_asked = true;
	if (fd < 0 || ftruncate(fd, RECORD_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return 1;
	req.id = slot->record_id = slot->next_id++;
	req.op_case = KODA__REQUEST__OP_RECORD;
	req.record = &record;
	p.len = koda__request__pack(&req, buf);
	r = send_packed(slot, &p, fd, err);
	if (r > 0)
		slot->record_fd = take_fd(&fd);
	else
		slot->record_asked = false;
	return r;
}

static int
send_recover(struct koda_slot *slot, struct call *c, struct koda_error *err)
{
	struct wreck wreck = { .request = c->id,
		.token = c->token,
		.prepared = &c->prepared,
		.committed = c->committed,
		.verdict = c->has_verdict ? &c->verdict : NULL };
	struct packed p;
	int r;

	c->recover_id = slot->next_id++;
	if (request_recover(&c->request, c->recover_id, &wreck, &p, err) < 0)
		return -1;
	r = send_packed(slot, &p, -1, err);
	packed_done(&p);
	if (r > 0)
		set_state(c, CALL_RECOVERING);
	return r;
}

static void
send_calls(struct koda_slot *slot)
{
	struct call *c, *next;
	struct koda_error err;
	int r = 1;

	/* First settle what happened to the mutations of dead workers, before anything new is done
	 * to the same files. */
	for (c = slot->head; r > 0 && slot->n_recovering > 0 && c != NULL; c = c->next)
		if (c->state == CALL_RECOVER)
			r = send_recover(slot, c, &err);
	for (c = slot->head; r > 0 && slot->n_recovering == 0 && slot->n_queued > 0 && c != NULL;
	     c = next) {
		next = c->next;
		if (c->state != CALL_QUEUED)
			continue;
		if (changes_something(c) && !slot->record_asked &&
		    (r = send_record(slot, &err)) <= 0)
			break;
		r = send_packed(slot, c->page.len > 0 ? &c->page : &c->request, c->fd, &err);
		if (r <= 0)
			break;
		memcpy(c->token, slot->token, TOKEN_BYTES);
		set_state(c, CALL_SENT);
		if (frame_pending(&slot->fs) > PAGE_MAX)
			break;
	}
	/* That the peer is gone is noticed when its socket is read to the end. */
	if (r >= 0)
		frame_flush(&slot->fs, false, NULL);
	else
		stop_worker(slot);
}

/* ---- time ---- */

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
			fail(c, KODA_TIMEOUT, 0, "not begun within %u ms", c->timeout_ms);
			continue;
		}
		c->timed_out = true;
		/* Finding out what happened gets a deadline of its own, once. */
		c->deadline = now + (SLOT_READY_MS + SLOT_GONE_MS) * NS_PER_MS;
		stuck = stuck || c->state == CALL_SENT;
	}
	if (stuck && (slot->state == SLOT_STARTING || slot->state == SLOT_UP))
		stop_worker(slot);
	/* The successor did not answer in time either. */
	for (c = slot->head; c != NULL; c = next) {
		next = c->next;
		/* CALL_SENT: the worker is being killed; what it did is known once it is buried. */
		if (!c->timed_out || now < c->deadline || c->state == CALL_SENT)
			continue;
		if (c->state == CALL_RECOVERING &&
		    (slot->state == SLOT_STARTING || slot->state == SLOT_UP))
			stop_worker(slot);
		settle(c);
	}
}

void
slot_advance(struct koda_slot *slot)
{
	struct koda_error err;

	for (;;) {
		switch (slot->state) {
		case SLOT_FAILED:
			fail_all(slot, &slot->failure);
			return;
		case SLOT_DOWN:
			if (slot->n_queued == 0 && slot->n_recovering == 0)
				return;
			if (monotonic_ns() < slot->not_before) {
				check_deadlines(slot);
				return;
			}
			if (start_worker(slot, &err) == 0)
				break;
			if (!passes(err.errnum)) {
				give_up(slot, &err);
				break;
			}
			fail_all(slot, &err);
			return;
		case SLOT_DYING:
			/* Remove it from the epoll set before it is closed: if a forked child of
			 * the embedder holds it open, it would stay in the set and point to a slot
			 * that is freed. */
			session_unwatch(slot->ses, &slot->source);
			if (child_gone(&slot->child, 0))
				bury(slot, true);
			else if (monotonic_ns() >= slot->state_deadline)
				bury(slot, false);
			else
				return;
			break;
		case SLOT_STARTING:
			return;
		case SLOT_UP:
			if (slot->n_queued > 0 || slot->n_recovering > 0 ||
			    frame_pending(&slot->fs) > 0)
				send_calls(slot);
			if (slot->state == SLOT_UP)
				return;
			break;
		}
	}
}

void
slot_tick(struct koda_slot *slot)
{
	check_deadlines(slot);
	slot_advance(slot);
}

void
slot_wait_for(const struct koda_slot *slot, int *ret_fd, uint32_t *ret_events, uint64_t *ret_time)
{
	uint64_t t = UINT64_MAX;

	*ret_fd = -1;
	*ret_events = 0;
	for (const struct call *c = slot->head; c != NULL; c = c->next)
		if (c->state != CALL_ASKING && c->deadline < t)
			t = c->deadline;
	switch (slot->state) {
	case SLOT_STARTING:
		if (slot->state_deadline < t)
			t = slot->state_deadline;
		/* fallthrough */
	case SLOT_UP:
		*ret_fd = slot->fs.fd;
		*ret_events = EPOLLIN;
		if (frame_pending(&slot->fs) > 0 ||
		    (slot->state == SLOT_UP && slot->n_queued > 0 && slot->n_recovering == 0))
			*ret_events |= EPOLLOUT;
		break;
	case SLOT_DYING:
		*ret_fd = slot->child.pidfd;
		*ret_events = EPOLLIN;
		if (slot->state_deadline < t)
			t = slot->state_deadline;
		break;
	case SLOT_DOWN:
		if (slot->n_queued + slot->n_recovering > 0 && slot->not_before < t)
			t = slot->not_before;
		break;
	case SLOT_FAILED:
		break;
	}
	if (slot->n_unasked > 0)
		t = 0;
	*ret_time = t;
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
		    c->timeout_ms >= 2 * RECEIVE_TICK_S * 1000) {
			slot_read(slot, true);
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
			fail(c, KODA_TIMEOUT, 0, "the caller gave up waiting for the slot");
			return;
		}
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR))
			slot_read(slot, false);
		slot_tick(slot);
		slot_ask(slot);
	}
}

/* ---- approval ---- */

void
slot_ask(struct koda_slot *slot)
{
	while (slot->n_unasked > 0) {
		struct call *c = slot->head;

		while (!c->unasked)
			c = c->next;
		c->unasked = false;
		slot->n_unasked--;
		approve_ask(slot->ses, c);
	}
}

void
slot_answer(struct call *c, bool yes)
{
	struct koda_slot *slot = c->slot;
	struct koda_error err;
	struct packed act;

	if (!yes) {
		err_set(&err, KODA_NOT_APPROVED, 0, "%s", c->err.message);
		err_about(&err, c->result.path, "trust");
		finish(c, &err);
		return;
	}
	c->id = c->request_id = slot->next_id++;
	if (request_again(&c->request, REQUEST_ACT, c->id, &c->result, &act, &err) < 0) {
		finish(c, &err);
		return;
	}
	packed_done(&c->request);
	c->request = act;
	c->preview = false;
	koda_result_done(&c->result);
	c->deadline = in_ms(c->timeout_ms);
	line_remove(slot, c);
	set_state(c, CALL_QUEUED);
	line_append(slot, c);
}

/* ---- the slot itself ---- */

static void
on_ready_source(struct source *source)
{
	slot_read((struct koda_slot *)source, false);
}

struct koda_slot *
slot_new(struct koda_session *ses, struct koda_policy *policy, struct koda_error *err)
{
	struct koda_slot *slot = calloc(1, sizeof(*slot));

	if (slot == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "slot");
		return NULL;
	}
	slot->ses = ses;
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
tell_nobody(void *data, const struct koda_result *result, const struct koda_error *err)
{
}

static void
closed_before(struct koda_error *ret)
{
	err_set(ret, KODA_WORKER, 0,
	    "the slot was closed before this was answered; whether it happened is not known");
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
			finish(c, &err);
	}
}

void
slot_free(struct koda_slot *slot)
{
	struct koda_error err;

	ending_run(slot, false, NULL);
	/* Callbacks of the host's own requests would refer to the sandbox that is freed here. */
	for (struct call *c = slot->head; c != NULL; c = c->next)
		if (c->take != NULL && c->done != NULL)
			c->done = tell_nobody;
	finished_forget(slot->ses, slot->sandbox, tell_nobody);
	search_close_all(slot);
	closed_before(&err);
	while (slot->head != NULL)
		finish(slot->head, &err);
	if (slot->state == SLOT_STARTING || slot->state == SLOT_UP)
		child_kill(&slot->child);
	/* In a sandbox the worker is stage2's child: it is killed with the sandbox, and not the
	 * host's to reap. Waiting until the kernel has removed its inotify watches would take
	 * longer than everything else in a short session. */
	if (slot->child.pidfd >= 0 && slot->sandbox != NULL)
		close_at(&slot->child.pidfd);
	else if (slot->child.pidfd >= 0)
		session_adopt(slot->ses, &slot->child);
	sandbox_free(slot->sandbox);
	session_unwatch(slot->ses, &slot->source);
	close_at(&slot->record_fd);
	frame_done(&slot->fs);
	arena_done(&slot->arena);
	koda_policy_free(slot->policy);
	free(slot);
}
