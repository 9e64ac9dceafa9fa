/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/connect_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "stage2/caller.h"
#include "stage2/connect_call.h"

/* Connections of one process that may wait: the rest of the table is for the others. */
#define CONNECT_PENDING_PER_PROCESS 64

/* Descriptors left for orders, commands and the plan, besides those of the table. */
#define CONNECT_FDS_LEFT 512

/* A full backlog is tried again after 1, 2, 4 ... ms: the kernel does not signal free room. */
#define CONNECT_RETRY_MAX_MS 64
/* How long it may take to notice a caller that was killed or has a signal to handle. */
#define CONNECT_ALIVE_MS 100

/* The kernel's ERESTARTSYS, which no program ever sees. */
#define RESTART 512

struct pending_connect {
	struct connect_waiter c;
	pid_t tgid;
	bool ready;              /* wait for POLLOUT; otherwise retry at `next` */
	uint64_t next, deadline; /* ms */
	unsigned delay;          /* ms */
	int late;                /* the answer when SO_SNDTIMEO runs out */
	bool over;               /* answered */
};

int
connect_wait_init(struct connect_wait *w, int listener)
{
	struct rlimit files;

	if (connect_call_init() < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -1;
	/*
	 * Each waiting connection takes two descriptors; commands must not be able to use up those
	 * that orders need.
	 */
	*w = (struct connect_wait){ .listener = listener, .max = CONNECT_PENDING_MAX };
	if (files.rlim_cur < CONNECT_FDS_LEFT + 2 * CONNECT_PENDING_MAX)
		w->max = files.rlim_cur <= CONNECT_FDS_LEFT
		    ? 16
		    : (size_t)(files.rlim_cur - CONNECT_FDS_LEFT) / 2;
	return 0;
}

int
connect_wait_add(struct connect_wait *w, const struct connect_waiter *c)
{
	struct timeval tv = { 0 };
	socklen_t size = sizeof(tv);
	struct pending_connect *p;
	size_t same = 0;
	pid_t tgid = caller_process(c->tid);

	for (size_t i = 0; i < w->n; i++)
		same += w->pending[i].tgid == tgid;
	if (w->n >= w->max || same >= CONNECT_PENDING_PER_PROCESS)
		return -EAGAIN;
	if (w->n == w->size) {
		size_t bigger = w->size != 0 ? w->size * 2 : 8;
		struct pending_connect *more = reallocarray(w->pending, bigger, sizeof(*more));

		if (more == NULL)
			return -EAGAIN;
		w->pending = more;
		w->size = bigger;
	}
	(void)getsockopt(c->socket, SOL_SOCKET, SO_SNDTIMEO, &tv, &size);
	p = &w->pending[w->n++];
	*p = (struct pending_connect){ .c = *c,
		.tgid = tgid,
		.ready = c->domain != AF_UNIX,
		.delay = 1,
		.deadline = UINT64_MAX,
		.late = c->domain == AF_UNIX ? -EAGAIN : -EINPROGRESS };
	p->next = monotonic_ms() + (p->ready ? CONNECT_ALIVE_MS : p->delay);
	if (tv.tv_sec > 0 || tv.tv_usec > 0)
		p->deadline =
		    monotonic_ms() + (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000;
	return 0;
}

size_t
connect_wait_poll(const struct connect_wait *w, struct pollfd *ret, size_t max, int *ret_timeout_ms)
{
	uint64_t first = UINT64_MAX, now;
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++) {
		const struct pending_connect *p = &w->pending[i];

		if (p->next < first)
			first = p->next;
		if (p->deadline < first)
			first = p->deadline;
		if (p->ready && n < max)
			ret[n++] = (struct pollfd){ .fd = p->c.socket, .events = POLLOUT };
	}
	*ret_timeout_ms = -1;
	if (first != UINT64_MAX) {
		now = monotonic_ms();
		*ret_timeout_ms = first > now ? (int)(first - now) : 0;
	}
	return n;
}

/*
 * The filter lets only fatal signals interrupt a caller, so that no connection is made and then
 * lost. A connection that waits here has not been made, and the caller may have set an alarm or
 * press Ctrl-C to give it up. Returns the answer that the kernel would give because of a pending
 * signal, or 0.
 */
static int
interrupted_answer(const struct pending_connect *p)
{
	static const uint64_t stops = 1ULL << (SIGTSTP - 1) | 1ULL << (SIGTTIN - 1) |
	    1ULL << (SIGTTOU - 1) | 1ULL << (SIGSTOP - 1);
	uint64_t own, shared, blocked, ignored, caught, effective;
	char text[CALLER_STATUS_SIZE];

	if (!caller_status(p->c.tid, text, sizeof(text)))
		return 0;
	own = caller_status_field(text, "SigPnd", 16);
	shared = caller_status_field(text, "ShdPnd", 16);
	blocked = caller_status_field(text, "SigBlk", 16);
	ignored = caller_status_field(text, "SigIgn", 16);
	caught = caller_status_field(text, "SigCgt", 16);
	effective = (caught | (stops & ~ignored)) & ~blocked;
	if (((own | shared) & effective) == 0)
		return 0;
	/*
	 * Restart the call after the handler if it was installed with SA_RESTART. The kernel
	 * handles this value only in a thread that has a signal to deliver, so the signal must
	 * certainly be this thread's.
	 */
	if (p->deadline == UINT64_MAX &&
	    ((own & effective) != 0 || caller_status_field(text, "Threads", 10) == 1))
		return -RESTART;
	return -EINTR;
}

/* Tries again. Returns true if the caller has been answered or is gone. */
static bool
try_again(struct connect_wait *w, struct pending_connect *p, bool ready, uint64_t now)
{
	int flags, r;

	if (!ready && now < p->next && now < p->deadline)
		return false;
	if (!caller_waits(w->listener, p->c.id))
		return true;
	if (ready || !p->ready) {
		flags = fcntl(p->c.socket, F_GETFL);
		r = flags < 0 ? -errno
			      : connect_call(p->c.socket, SOCK_STREAM, flags, &p->c.addr, p->c.len);
		if (!connect_call_has_to_wait(p->c.domain, r)) {
			caller_answer(w->listener, p->c.id, r);
			return true;
		}
	}
	if (now >= p->deadline) {
		caller_answer(w->listener, p->c.id, p->late);
		return true;
	}
	r = interrupted_answer(p);
	if (r != 0) {
		caller_answer(w->listener, p->c.id, r);
		return true;
	}
	if (p->ready) {
		p->next = now + CONNECT_ALIVE_MS;
	} else {
		p->delay = p->delay < CONNECT_RETRY_MAX_MS ? p->delay * 2 : CONNECT_RETRY_MAX_MS;
		p->next = now + p->delay;
	}
	return false;
}

void
connect_wait_progress(struct connect_wait *w, const struct pollfd *fds, size_t n)
{
	uint64_t now, until;
	size_t kept = 0;

	if (w->n == 0)
		return;
	now = monotonic_ms();
	until = now + CONNECT_TURN_MS;
	/*
	 * As many as there is time for: each may take CONNECT_SLICE_MS. The next turn continues
	 * where this one ends.
	 */
	for (size_t done = 0; done < w->n && monotonic_ms() < until; done++, w->from++) {
		struct pending_connect *p = &w->pending[w->from % w->n];
		bool ready = false;

		for (size_t k = 0; p->ready && k < n && !ready; k++)
			ready = fds[k].fd == p->c.socket && fds[k].revents != 0;
		p->over = try_again(w, p, ready, now);
	}
	w->from %= w->n;
	for (size_t i = 0; i < w->n; i++) {
		struct pending_connect *p = &w->pending[i];

		if (p->over) {
			close_at(&p->c.socket);
			close_at(&p->c.target);
			continue;
		}
		if (kept != i)
			w->pending[kept] = *p;
		kept++;
	}
	w->n = kept;
}
