/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/process.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/context/event.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

/* Limit of reads in one turn of the loop: a proxy that never stops reporting must not keep the
 * host from other work. */
#define READS_MAX 16
/* How long to wait for the death of a process that has closed its socket. */
#define GONE_MS 200

static struct egress_process *
process_of(struct egress_wire *wire)
{
	return (struct egress_process *)((char *)wire - offsetof(struct egress_process, wire));
}

static void
watch_control(struct egress_process *p)
{
	const struct frame_stream *fs = &p->wire.fs;

	loop_watch(&p->ses->loop, &p->source, fs->fd,
	    EPOLLIN | (frame_pending(fs) > 0 ? EPOLLOUT : 0));
}

static void
on_queued(struct egress_wire *wire)
{
	watch_control(process_of(wire));
}

/* ---- the end ---- */

void
egress_process_stop(struct egress_process *p)
{
	loop_unwatch(&p->ses->loop, &p->source);
	wire_close(&p->wire); /* it ends with its socket */
	child_kill(&p->child);
	leaving_adopt(&p->ses->leaving, &p->child);
	close_at(&p->child.pidfd);
	p->child.pidfd = -1;
	p->state = PROCESS_DOWN;
	p->client->stopped(p->data);
}

static uint64_t
backoff_ns(unsigned deaths)
{
	if (deaths > EGRESS_BARREN_MAX)
		deaths = EGRESS_BARREN_MAX;
	return deaths < 2 ? 0 : (EGRESS_BACKOFF_MS * NS_PER_MS) << (2 * (deaths - 2));
}

static void
bury_process(struct egress_process *p, bool barren, const char *why)
{
	egress_process_stop(p);
	p->barren += barren;
	p->useless = p->useful && !barren ? 0 : p->useless + 1;
	p->not_before = monotonic_ns() + backoff_ns(p->useless);
	if (p->barren >= EGRESS_BARREN_MAX)
		p->state = PROCESS_FAILED;
	p->client->changed(p->data);
	/* Last: the callback may answer questions, and release slots or the session. */
	session_event(p->ses, KODA_EVENT_DEATH, "the egress proxy is gone: %s", why);
	if (p->state == PROCESS_FAILED)
		session_event(p->ses, KODA_EVENT_DEGRADED,
		    "commands have no network, because the egress proxy does not work: %s", why);
}

/* The proxy has closed its socket. A proxy that closes it and does not exit is broken. */
static void
bury_ended(struct egress_process *p)
{
	const bool gone = child_gone(&p->child, GONE_MS);
	char how[64], why[KODA_MESSAGE_MAX];

	if (p->wire.failed[0] != '\0')
		snprintf(why, sizeof(why), "%s", p->wire.failed);
	else
		snprintf(why, sizeof(why), "%s",
		    gone ? child_end(&p->child, how, sizeof(how)) : "it closed its socket");
	bury_process(p, p->state != PROCESS_UP || !gone, why);
}

static int
take_reports(struct egress_process *p, struct koda_error *err)
{
	return wire_receive(&p->wire, &p->client->reports, p->data, err);
}

/* Read the last reports of a proxy that no longer takes orders. */
static void
read_rest(struct egress_process *p)
{
	for (int i = 0; !p->wire.fs.eof && i < READS_MAX; i++)
		if (take_reports(p, NULL) < 0 || frame_fill(&p->wire.fs, false, NULL) <= 0)
			return;
}

/* A read or a write has failed. A socket that the proxy has closed is an ordinary death; any
 * other error is the proxy's fault. */
static void
bury_broken(struct egress_process *p, const struct koda_error *err)
{
	if (err->code != KODA_IO && !p->wire.fs.eof) {
		bury_process(p, true, err->message);
		return;
	}
	read_rest(p);
	bury_ended(p);
}

void
egress_process_ordered(struct egress_process *p, int r, const struct koda_error *err)
{
	if (r < 0)
		bury_broken(p, err);
}

/* ---- the start ---- */

/* Is this a shortage that may be over at the next connection? */
static bool
is_shortage(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOMEM;
}

void
egress_process_start(struct egress_process *p)
{
	struct koda_error err;
	int pair[2];

	p->wire.failed[0] = '\0';
	p->useful = false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		err_set(&err, KODA_INTERNAL, errno, "socketpair");
		bury_process(p, !is_shortage(err.errnum), err.message);
		return;
	}
	wire_open(&p->wire, pair[0]);
	p->state = PROCESS_STARTING;
	p->deadline = monotonic_ns() + EGRESS_READY_MS * NS_PER_MS;
	if (spawn_helper(p->path, pair[1], &p->child, &err) < 0 ||
	    p->client->start(p->data, &err) < 0)
		bury_process(p, !is_shortage(err.errnum), err.message);
	else
		loop_wake_at(&p->ses->loop, p->deadline);
	close(pair[1]);
	p->client->changed(p->data);
}

void
egress_process_set_up(struct egress_process *p)
{
	p->state = PROCESS_UP;
}

void
egress_process_set_useful(struct egress_process *p)
{
	p->useful = true;
	p->barren = 0;
}

bool
egress_process_runs(const struct egress_process *p)
{
	return p->wire.fs.fd >= 0;
}

bool
egress_process_may_start(const struct egress_process *p)
{
	return p->state == PROCESS_DOWN && monotonic_ns() >= p->not_before;
}

/* ---- receiving ---- */

/* Process the reports that are there. Returns false if none is left, or if the proxy is gone. */
static bool
receive(struct egress_process *p)
{
	struct koda_error err;
	int r = 1;

	for (int i = 0; r > 0 && i < READS_MAX; i++) {
		r = frame_fill(&p->wire.fs, false, &err);
		if (r > 0 && take_reports(p, &err) < 0) {
			bury_broken(p, &err);
			return false;
		}
	}
	if (r < 0)
		bury_broken(p, &err);
	return r > 0;
}

static void
on_control(struct source *source)
{
	struct egress_process *p = (struct egress_process *)source;
	struct koda_error err;

	receive(p);
	if (p->wire.fs.fd < 0 || (source->events & EPOLLOUT) == 0)
		return;
	if (frame_flush(&p->wire.fs, false, &err) < 0)
		bury_broken(p, &err);
	else if (frame_pending(&p->wire.fs) == 0)
		watch_control(p);
}

void
egress_process_drain(struct egress_process *p)
{
	/* READS_MAX rounds are enough: the proxy sent the reports that are needed here before any
	 * that is still unread then. */
	for (int i = 0; i < READS_MAX && p->wire.fs.fd >= 0 && receive(p); i++)
		;
}

static void
wait_for(struct egress_process *p, bool (*there)(const struct egress_process *), int timeout_ms)
{
	const uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	while (p->wire.fs.fd >= 0 && !there(p)) {
		struct frame_stream *fs = &p->wire.fs;
		struct pollfd pfd = { .fd = fs->fd, .events = POLLIN };
		struct koda_error err;
		uint64_t now = monotonic_ns();

		if (now >= until)
			return;
		if (frame_pending(fs) > 0)
			pfd.events |= POLLOUT;
		poll(&pfd, 1, (int)((until - now) / NS_PER_MS + 1));
		if ((pfd.revents & POLLOUT) != 0 && frame_flush(fs, false, &err) < 0)
			bury_broken(p, &err);
		else if ((pfd.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
			receive(p);
	}
}

static bool
is_up(const struct egress_process *p)
{
	return p->state == PROCESS_UP;
}

static bool
is_synced(const struct egress_process *p)
{
	return wire_is_synced(&p->wire);
}

void
egress_process_wait_up(struct egress_process *p)
{
	wait_for(p, is_up, EGRESS_READY_MS);
}

void
egress_process_wait_synced(struct egress_process *p)
{
	wait_for(p, is_synced, EGRESS_SYNC_MS);
}

/* ---- time; making and freeing ---- */

uint64_t
egress_process_next_time(const struct egress_process *p, bool wanted)
{
	if (p->state == PROCESS_STARTING)
		return p->deadline;
	return p->state == PROCESS_DOWN && wanted && p->not_before > 0 ? p->not_before : UINT64_MAX;
}

void
egress_process_tick(struct egress_process *p, uint64_t now)
{
	if (p->state == PROCESS_STARTING && now >= p->deadline)
		bury_process(p, true, "it was not ready in time");
	if (p->state == PROCESS_DOWN && p->not_before != 0 && now >= p->not_before) {
		p->not_before = 0;
		p->client->changed(p->data);
	}
}

void
egress_process_init(struct egress_process *p, const char *path, struct koda_session *ses,
    const struct process_client *client, void *data)
{
	*p = (struct egress_process){ .source = { .ready = on_control, .fd = -1 },
		.path = path,
		.ses = ses,
		.client = client,
		.data = data,
		.child = { .pidfd = -1 } };
	wire_init(&p->wire, on_queued);
}

void
egress_process_done(struct egress_process *p)
{
	if (egress_process_runs(p))
		egress_process_stop(p);
	wire_done(&p->wire);
}

void
egress_process_abandon(struct egress_process *p)
{
	p->source.fd = -1; /* the parent shares the epoll set */
	close_at(&p->child.pidfd);
	p->child.pidfd = -1;
	wire_close(&p->wire);
	p->state = PROCESS_FAILED;
}
