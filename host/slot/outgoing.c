/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/outgoing.h"

#include <poll.h>
#include <string.h>

#include "host/slot/call.h"
#include "host/slot/record.h"
#include "shared/base/cleanup.h"

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
		return frame_flush_with_fd(&slot->fs, p->len + 4, fd, OUTGOING_FD_MS, err) < 0 ? -1
											       : 1;
	return 1;
}

/* Gives the worker a record before its first mutation. Without a record, the worker reports its
 * progress through the socket. */
static int
send_record(struct koda_slot *slot, struct koda_error *err)
{
	cleanup_close int fd = record_new();
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Record record = KODA__RECORD__INIT;
	uint8_t buf[32];
	struct packed p = { buf, 0 };
	int r;

	slot->record_asked = true;
	if (fd < 0)
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
		call_set_state(c, CALL_RECOVERING);
	return r;
}

/* Returns false if nothing can be sent now: the slot has changed meanwhile. */
static bool
refresh(struct koda_slot *slot)
{
	if (!slot->drafted || slot->n_queued == 0 || slot->n_recovering > 0)
		return true;
	if (slot->refreshing)
		return false;
	slot->refreshing = true;
	slot->client->refresh(slot);
	slot->refreshing = false;
	return slot->state == SLOT_UP;
}

int
outgoing_send(struct koda_slot *slot)
{
	struct call *c, *next;
	struct koda_error err;
	int r = 1;

	if (!refresh(slot))
		return 0;
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
		if (call_changes_something(c) && !slot->record_asked &&
		    (r = send_record(slot, &err)) <= 0)
			break;
		r = send_packed(slot, c->page.len > 0 ? &c->page : &c->request, c->fd, &err);
		if (r <= 0)
			break;
		memcpy(c->token, slot->token, TOKEN_BYTES);
		call_set_state(c, CALL_SENT);
		if (frame_pending(&slot->fs) > PAGE_MAX)
			break;
	}
	/* If the worker is gone, the host notices it when it reads the socket to the end. */
	if (r < 0)
		return -1;
	frame_flush(&slot->fs, false, NULL);
	return 0;
}
