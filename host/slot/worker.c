/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/worker.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/context/event.h"
#include "host/slot/incoming.h"
#include "host/slot/record.h"
#include "host/slot/seal.h"
#include "host/slot/wreck.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* Holds a deep queue of small writes, which the worker reads in a few calls. */
#define SEND_BUFFER (512 << 10)
/* How many pages are read at most from a dead worker's socket. */
#define BURY_READS_MAX 1024

void
worker_stop(struct koda_slot *slot)
{
	child_kill(&slot->child);
	slot_set_state(slot, SLOT_DYING);
	slot->state_deadline = monotonic_ns() + SLOT_GONE_MS * NS_PER_MS;
}

void
worker_give_up(struct koda_slot *slot, const struct koda_error *why)
{
	slot->failure = *why;
	if (slot->state == SLOT_STARTING || slot->state == SLOT_UP) {
		/* There is no mutation to recover: the host has sent the worker none, or does not
		 * trust it to have acted. No successor will be asked. */
		child_kill(&slot->child);
		loop_unwatch(&slot->ses->loop, &slot->source);
		frame_done(&slot->fs);
		leaving_adopt(&slot->ses->leaving, &slot->child);
	}
	slot_set_state(slot, SLOT_FAILED);
	wreck_end_all(slot, &slot->failure);
}

int
worker_start(struct koda_slot *slot, struct koda_error *err)
{
	struct timeval tick = { .tv_sec = WORKER_READ_MS / 1000 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, KODA_INTERNAL, errno, "socketpair");
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
	/* As far as the kernel allows: a smaller buffer only means more wake-ups. */
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){ SEND_BUFFER }, sizeof(int));
	if (slot->client->launch(slot, SLOT_FILES, pair[1], &slot->child, err) < 0) {
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
	randombytes_buf(slot->token, sizeof(slot->token));
	slot->seal_id = slot->next_id++;
	if (seal_queue(slot, &slot->fs, slot->seal_id, slot->token, true, err) < 0) {
		child_kill(&slot->child);
		frame_done(&slot->fs);
		leaving_adopt(&slot->ses->leaving, &slot->child);
		return -1;
	}
	slot_set_state(slot, SLOT_STARTING);
	slot->state_deadline = monotonic_ns() + SLOT_READY_MS * NS_PER_MS;
	slot->ses->stats.spawns++;
	slot->ses->stats.respawns += slot->ever_up;
	session_event(slot->ses, KODA_EVENT_SPAWN, "worker %d started", (int)slot->child.pid);
	frame_flush(&slot->fs, false, NULL); /* an error shows as the worker's death */
	return 0;
}

static void
protocol_error(struct koda_slot *slot, const struct koda_error *err)
{
	slot->broken = true;
	slot->failure = *err;
	worker_stop(slot);
}

static int
on_ready(struct koda_slot *slot, const Koda__Reply *reply, struct koda_error *err)
{
	struct koda_error why;
	int r = seal_check(slot, CONFINED_WORKER, reply, &slot->enforcement, &why);

	if (r == 0) {
		slot_set_state(slot, SLOT_UP);
		slot->ever_up = true;
	} else if (r > 0) {
		worker_give_up(slot, &why);
	} else {
		*err = why;
	}
	return r < 0 ? -1 : 0;
}

static struct call *
find_call(const struct koda_slot *slot, uint64_t id)
{
	struct call *c = slot->head;

	while (c != NULL &&
	    !((c->state == CALL_SENT && c->id == id) ||
		(c->state == CALL_RECOVERING && c->recover_id == id)))
		c = c->next;
	return c;
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
		return err_set(err, KODA_PROTOCOL, 0, "the reply to Record has the wrong type");
	}
	c = find_call(slot, reply->id);
	/* The worker may still answer calls that were given up, also while it is being killed. */
	if (c == NULL && (slot->state == SLOT_DYING || slot->gave_up) && reply->id > 0 &&
	    reply->id < slot->next_id)
		return 0;
	if (c == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "a reply to an unknown request (id %llu)",
		    (unsigned long long)reply->id);
	return incoming_take(c, reply, take_fd(&fd), frame, len, err);
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
		r = err_set(&err, KODA_PROTOCOL, 0, "an unexpected descriptor");
	if (r < 0 && slot->state != SLOT_FAILED)
		protocol_error(slot, &err);
}

void
worker_read(struct koda_slot *slot, bool block)
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
		worker_stop(slot);
}

static uint64_t
backoff_ns(unsigned barren)
{
	return barren < 2 ? 0 : (SLOT_BACKOFF_MS * NS_PER_MS) << (2 * (barren - 2));
}

void
worker_bury(struct koda_slot *slot, bool gone)
{
	struct koda_error err;
	char how[64], text[KODA_MESSAGE_MAX];

	for (int i = 0;
	     !slot->broken && i < BURY_READS_MAX && frame_fill(&slot->fs, false, NULL) > 0; i++)
		receive_frames(slot);
	record_read(slot);
	loop_unwatch(&slot->ses->loop, &slot->source);
	frame_done(&slot->fs);
	slot->barren = slot->answered ? 0 : slot->barren + 1;
	if (slot->broken)
		snprintf(text, sizeof(text), "worker %d broke the protocol and was killed: %s",
		    (int)slot->child.pid, slot->failure.message);
	else
		snprintf(text, sizeof(text), "worker %d %s", (int)slot->child.pid,
		    gone ? child_end(&slot->child, how, sizeof(how)) : "hangs in the kernel");
	if (!gone)
		leaving_adopt(&slot->ses->leaving, &slot->child);
	slot_set_state(slot, SLOT_DOWN);
	slot->not_before = monotonic_ns() + backoff_ns(slot->barren);
	wreck_sort(slot, gone);
	if (slot->barren >= SLOT_BARREN_MAX) {
		err_set(&err, KODA_WORKER, 0,
		    "the worker died %u times in a row without an answer (%s): this slot is out "
		    "of use",
		    slot->barren,
		    slot->broken ? slot->failure.message
			: gone   ? child_end(&slot->child, how, sizeof(how))
				 : "hangs in the kernel");
		worker_give_up(slot, &err);
	}
	/* Last: the callback may answer an open question, which may start the next worker. */
	session_event(slot->ses, KODA_EVENT_DEATH, "%s", text);
}
