/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_control.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "host/context/entry.h"
#include "host/sandbox/sandbox_end.h"
#include "host/sandbox/sandbox_event.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define SAID_MAX 400 /* how much of bwrap's standard error goes into a message */

/* ---- reports ---- */

static int
on_report(struct sandbox *sb, const uint8_t *frame, size_t len, struct sandbox_answer *w,
    struct koda_error *err)
{
	Koda__Report *r;

	arena_reset(&sb->arena);
	r = (Koda__Report *)message_unpack(&koda__report__descriptor, frame, len, &sb->arena, err);
	if (r == NULL)
		return -1;
	if (r->report_case == KODA__REPORT__REPORT__NOT_SET)
		return err_set(err, KODA_PROTOCOL, 0, "an empty report");
	if (r->report_case == KODA__REPORT__REPORT_EVENT && r->id == 0) {
		sandbox_event(sb, r->event);
		return 0;
	}
	if (w != NULL && r->id == w->id) {
		if (w->wants_fd &&
		    (r->report_case == KODA__REPORT__REPORT_WORKER_STARTED ||
			r->report_case == KODA__REPORT__REPORT_BOOTED))
			w->fd = frame_take_fd(&sb->fs);
		w->report = r;
		return 0;
	}
	if (r->id == 0 || r->id >= sb->next_id)
		return err_set(err, KODA_PROTOCOL, 0, "a report about an unknown order (id %llu)",
		    (unsigned long long)r->id);
	sb->client->report(sb->data, r);
	return 0;
}

/* Returns 0, or -1 with *err set if stage2 breaks the protocol. */
static int
take_reports(struct sandbox *sb, struct sandbox_answer *w, struct koda_error *err)
{
	const uint8_t *frame;
	size_t len;
	int r = 0;

	while (sb->fs.fd >= 0 && (w == NULL || w->report == NULL) &&
	    (r = frame_next(&sb->fs, &frame, &len, err)) > 0)
		if ((r = on_report(sb, frame, len, w, err)) < 0)
			break;
	if (r == 0 && frame_fds_waiting(&sb->fs) > 0 && sb->fs.in_start == sb->fs.in_end)
		r = err_set(err, KODA_PROTOCOL, 0, "an unexpected descriptor");
	return r < 0 ? -1 : 0;
}

/* ---- its death ---- */

static void
read_said(const struct sandbox *sb, char *buf, size_t size)
{
	ssize_t n = sb->said_fd < 0 ? 0 : pread(sb->said_fd, buf, size - 1, 0);
	char *line;

	buf[n > 0 ? n : 0] = '\0';
	line = strchr(buf, '\n');
	if (line != NULL)
		*line = '\0';
}

void
sandbox_explain_end(struct sandbox *sb, struct koda_error *err)
{
	char said[SAID_MAX], how[64];
	bool gone;

	loop_unwatch(&sb->ses->loop, &sb->end.source); /* before its descriptor is closed */
	/* bwrap writes its last messages before it exits. */
	gone = child_gone(&sb->bwrap, 200);

	read_said(sb, said, sizeof(said));
	if (said[0] != '\0')
		err_set(err, KODA_WORKER, 0, "%s", said);
	else
		err_set(err, KODA_WORKER, 0, "bwrap %s",
		    gone ? child_end(&sb->bwrap, how, sizeof(how)) : "closed its socket");
}

void
sandbox_on_readable(struct source *source)
{
	struct sandbox *sb = (struct sandbox *)source;
	struct koda_error err;
	int r;

	if (!sb->up)
		return;
	do {
		r = frame_fill(&sb->fs, false, &err);
		if (r > 0)
			r = take_reports(sb, NULL, &err) < 0 ? -2 : 1;
	} while (r > 0 && sb->up);
	if (r == -1)
		sandbox_explain_end(sb, &err);
	if (r < 0 && sb->up)
		sandbox_kill(sb, &err);
}

/* bwrap, outside the sandbox, waits for stage2 to end. If another process has killed bwrap, stage2
 * still runs and has its socket. */
void
sandbox_on_bwrap_gone(struct source *source)
{
	struct sandbox *sb = ((struct sandbox_end *)source)->sb;
	struct koda_error err;

	if (!sb->up)
		return;
	sandbox_explain_end(sb, &err);
	sandbox_kill(sb, &err);
}

void
sandbox_wait(struct sandbox *sb, int timeout_ms)
{
	struct pollfd pfd[] = {
		{ .fd = sb->fs.fd, .events = POLLIN },
		{ .fd = sb->bwrap.pidfd, .events = POLLIN },
	};

	if (!sb->up || poll(pfd, N_ELEMENTS(pfd), timeout_ms) <= 0)
		return;
	if (pfd[0].revents != 0)
		sandbox_on_readable(&sb->source);
	if (pfd[1].revents != 0)
		sandbox_on_bwrap_gone(&sb->end.source);
}

/* ---- orders ---- */

static int
queue_order(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err)
{
	ssize_t len;

	order->id = sb->next_id++;
	len = message_queue(&sb->fs, &order->base, err);
	if (len < 0)
		return -1;
	if (n_fds > 0)
		return frame_flush_with_fds(&sb->fs, (size_t)len, fds, n_fds, SANDBOX_ANSWER_MS,
		    err);
	return frame_flush(&sb->fs, true, err) < 0 ? -1 : 0;
}

int
sandbox_send(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds,
    struct koda_error *err)
{
	if (!sb->up)
		return err_set(err, KODA_WORKER, 0, "the sandbox is gone");
	if (queue_order(sb, order, fds, n_fds, err) == 0)
		return 0;
	if (err != NULL && (err->code == KODA_IO || err->code == KODA_TIMEOUT))
		err->code = KODA_WORKER; /* whether stage2 is gone or hangs */
	return -1;
}

int
sandbox_ask(struct sandbox *sb, Koda__Order *order, const int *fds, size_t n_fds, int timeout_ms,
    struct sandbox_answer *w, struct koda_error *err)
{
	const uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	w->fd = -1;
	w->report = NULL;
	if (queue_order(sb, order, fds, n_fds, err) < 0) {
		if (err->code == KODA_IO)
			sandbox_explain_end(sb, err); /* stage2 died after the last order */
		return -1;
	}
	w->id = order->id;
	for (;;) {
		/* Until stage2 runs, the sandbox is gone when bwrap ends, even if another process
		 * still has the socket. */
		struct pollfd pfd[] = {
			{ .fd = sb->fs.fd, .events = POLLIN },
			{ .fd = sb->up ? -1 : sb->bwrap.pidfd, .events = POLLIN },
		};
		uint64_t now;
		int ms, r;

		if (take_reports(sb, w, err) < 0)
			return -1;
		if (w->report != NULL)
			break;
		now = monotonic_ns();
		if (now >= until)
			return err_set(err, KODA_WORKER, 0,
			    "the sandbox did not answer within %d s", timeout_ms / 1000);
		ms = (int)((until - now) / NS_PER_MS + 1);
		r = w->soon ? poll(pfd, N_ELEMENTS(pfd), ms)
			    : session_poll(sb->ses, pfd, N_ELEMENTS(pfd), ms);
		if (r < 0 && !w->soon && sb->ses->given_up)
			return err_set(err, KODA_TIMEOUT, 0,
			    "the caller gave up waiting for the sandbox");
		if (r > 0 && pfd[0].revents == 0) {
			sandbox_explain_end(sb, err);
			return -1;
		}
		if (r > 0 && (r = frame_fill(&sb->fs, false, err)) < 0) {
			if (err->code != KODA_PROTOCOL || sb->fs.eof)
				sandbox_explain_end(sb, err);
			return -1;
		}
	}
	if (w->report->report_case == KODA__REPORT__REPORT_FAILED) {
		const Koda__Failed *f = w->report->failed;

		sb->draft_failed = f->step == KODA__FAILED_STEP__FAILED_STEP_DRAFT;
		err_set(err, KODA_UNSUPPORTED, f->errnum, "the sandbox cannot be set up: %.*s",
		    (int)f->what.len, (const char *)f->what.data);
		return -1;
	}
	return 0;
}
